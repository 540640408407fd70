//! Small crates as text, checked against layers.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

/// A crate of `(file, text)`.
fn tree(files: &[(&str, &str)]) -> SourceTree {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let read = |path: &Path| files.get(path.to_str().unwrap()).map(|text| Ok((*text).to_owned()));
    SourceTree::read_with(&read).unwrap()
}

/// What module `a` imports when its text is `text`, beside modules `b`, `b::inner`, `b::inner::leaf` and `c`.
fn imports_of_a(text: &str) -> Vec<String> {
    let tree = tree(&[
        ("lib.rs", "mod a; mod b; mod c; pub use b::Reexported; struct OfRoot;"),
        ("a.rs", text),
        ("b/mod.rs", "pub mod inner; pub use inner::leaf::Leaf;"),
        ("b/inner.rs", "pub mod leaf;"),
        ("b/inner/leaf.rs", "pub struct Leaf;"),
        ("c.rs", ""),
    ]);
    let of_a = tree.module_imports().into_iter().filter(|import| import.from.starts_with('a'));
    of_a.map(|import| import.to).filter(|to| !to.starts_with('a')).collect()
}

#[test]
fn use_trees_are_expanded() {
    assert_eq!(imports_of_a("use crate::b::Thing;"), ["b"]);
    assert_eq!(
        imports_of_a("use crate::{b::{self, inner::{leaf::Leaf, Other}}, c as d};"),
        ["b", "b::inner::leaf", "b::inner", "c"]
    );
    assert_eq!(imports_of_a("use\n    crate::{\n    b::inner::{\n        Other,\n    },\n};"), ["b::inner"]);
    assert_eq!(
        imports_of_a("pub(crate) use crate::c::*; pub use super::b::X; pub use std::fmt;"),
        ["c", "b"]
    );
    assert_eq!(imports_of_a("use ::crate::b::X as _;"), ["b"]);
}

#[test]
fn relative_paths_are_resolved() {
    assert_eq!(imports_of_a("mod x { mod y { use super::super::super::c::Z; use self::W; } }"), ["c"]);
    assert_eq!(imports_of_a("use super::b; fn f() { b::inner::leaf::go(); }"), ["b", "b::inner::leaf"]);
    assert_eq!(imports_of_a("use super::b as other; type T = other::inner::Other;"), ["b", "b::inner"]);
}

#[test]
fn inline_paths_count() {
    assert_eq!(imports_of_a("fn f() -> crate::b::X { super::c::y::<u8>() }"), ["b", "c"]);
    assert_eq!(imports_of_a("use crate::c::Y; fn f() { Y::new(); Y::go(); }"), ["c"]);
    assert_eq!(imports_of_a("fn f() { log!(\"{}\", crate::c::value()); }"), ["c"]);
    assert_eq!(imports_of_a("fn f() { let x: Vec<crate::c::Y> = vec![]; x.c::<u8>(); }"), ["c"]);
}

#[test]
fn paths_to_the_root_follow_its_reexports() {
    assert_eq!(imports_of_a("use crate::Reexported;"), ["b"]);
    assert_eq!(imports_of_a("use crate::OfRoot;"), ["crate"]);
}

#[test]
fn comments_strings_and_other_crates_are_ignored() {
    let text = r##"
        // use crate::b::X;
        /* use crate::b::X; /* crate::c::Y */ use crate::c::Z; */
        //! crate::b
        /// [`crate::b::X`]
        const A: &str = "use crate::b::X; \" crate::c::Y";
        const B: &str = r#"crate::b::"X""#;
        const C: &[u8] = b"crate::c::Y";
        const D: [char; 3] = ['"', '\'', 'c'];
        fn f<'a>(x: &'a str) -> std::fmt::Result { serde::b::go(x) }
        pub(in crate::b) fn g() {}
        pub(super) struct S(pub(crate) u8);
        use bytes::{b, c::d};
    "##;
    assert_eq!(imports_of_a(text), [""; 0]);
    assert_eq!(imports_of_a(&format!("{text} use crate::c::Y;")), ["c"]);
}

#[test]
fn tests_are_skipped() {
    assert_eq!(
        imports_of_a("#[cfg(test)]\nmod tests { use crate::b::X; fn f() { crate::c::y() } }"),
        [""; 0]
    );
    assert_eq!(imports_of_a("#[cfg(test)]\n#[path = \"absent.rs\"]\nmod tests;\nuse crate::c::Y;"), ["c"]);
    assert_eq!(imports_of_a("#[cfg(test)] use crate::b::{X, Y}; use crate::c::Z;"), ["c"]);
    assert_eq!(
        imports_of_a("#[cfg(test)] pub(crate) fn f<A, B>() -> crate::b::X { } fn g() { crate::c::z() }"),
        ["c"]
    );
    assert_eq!(
        imports_of_a("#[cfg(all(test, unix))] const X: u8 = { crate::b::X }; use crate::c::Z;"),
        ["c"]
    );
    assert_eq!(imports_of_a("struct S { #[cfg(test)] x: crate::b::X, y: crate::c::Y }"), ["c"]);
    assert_eq!(
        imports_of_a("#[cfg(any(test, unix))] use crate::b::X; #[cfg(not(test))] use crate::c::Y;"),
        ["b", "c"]
    );
}

#[test]
fn files_are_found_as_the_compiler_finds_them() {
    let tree = tree(&[
        ("main.rs", "mod a; mod inline { mod deep; } #[path = \"other/place.rs\"] mod b; fn main() {}"),
        ("a/mod.rs", "mod c;"),
        ("a/c.rs", "#[cfg(test)] #[path = \"c_tests.rs\"] mod tests;"),
        ("inline/deep.rs", ""),
        ("other/place.rs", ""),
        ("unused.rs", "use crate::a::X;"),
    ]);
    let modules: Vec<_> = tree.modules().collect();
    assert_eq!(modules, ["a", "a::c", "b", "inline", "inline::deep"]);
}

const FIXTURE_LAYERS: &[&[&str]] = &[&["ground"], &["first", "second"], &["second::upper"], &["roof"]];
/// The imports of the fixture as `(from, to)`, all downwards or to the side.
const FIXTURE_IMPORTS: &[(&str, &str)] = &[
    ("first", "ground"),
    ("first", "second"),
    ("second::upper", "second"),
    ("second::upper", "first"),
    ("roof", "second::upper"),
];

fn fixture(imports: &[(&str, &str)]) -> SourceTree {
    let text = |module: &str, start: &str| {
        let uses = imports.iter().filter(|(from, _)| *from == module);
        uses.fold(start.to_owned(), |text, (_, to)| format!("{text}use crate::{to}::Item;\n"))
    };
    tree(&[
        ("lib.rs", "mod ground; mod first; mod second; mod roof;"),
        ("ground.rs", &text("ground", "")),
        ("first.rs", &text("first", "")),
        ("second/mod.rs", &text("second", "mod upper;\n")),
        ("second/upper.rs", &text("second::upper", "")),
        ("roof.rs", &text("roof", "")),
    ])
}

#[test]
fn imports_downwards_pass() {
    assert_eq!(check_tree(&fixture(FIXTURE_IMPORTS), FIXTURE_LAYERS), [""; 0]);
}

#[test]
fn every_import_that_is_turned_round_fails() {
    for (index, &(from, to)) in FIXTURE_IMPORTS.iter().enumerate() {
        let mut imports = FIXTURE_IMPORTS.to_vec();
        imports.push((to, from));
        let violations = check_tree(&fixture(&imports), FIXTURE_LAYERS);
        assert_eq!(violations.len(), 1, "{from} and {to} import each other: {violations:?}");
        // Turned round without the original, a sideways import is allowed; all others are not.
        imports.remove(index);
        let violations = check_tree(&fixture(&imports), FIXTURE_LAYERS);
        assert_eq!(
            violations.is_empty(),
            (from, to) == ("first", "second"),
            "{to} imports {from}: {violations:?}"
        );
    }
}

#[test]
fn a_violation_names_its_place() {
    let tree = fixture(&[("ground", "ground"), ("ground", "roof")]);
    assert_eq!(
        check_tree(&tree, FIXTURE_LAYERS),
        ["ground.rs:2: crate::roof::Item: `ground` imports from `roof`, a higher layer"]
    );
}

#[test]
fn the_list_of_layers_must_be_complete_and_current() {
    let tree = fixture(&[]);
    assert_eq!(check_tree(&tree, &[&["ground", "first", "second"]]), ["`roof` is in no layer"]);
    let violations = check_tree(&tree, &[&["ground", "first"], &["second", "roof", "first", "cellar"]]);
    assert_eq!(violations, ["`first` is listed twice", "`cellar` is listed but no such module exists"]);
}

#[test]
fn imports_from_the_root_need_the_root_in_the_list() {
    let tree = tree(&[("lib.rs", "mod a; pub struct Error;"), ("a.rs", "use crate::Error;")]);
    assert_eq!(check_tree(&tree, &[&["a"]]), ["a.rs:1: crate::Error: `a` imports from the crate's root"]);
    assert_eq!(check_tree(&tree, &[&[ROOT], &["a"]]), [""; 0]);
}

#[test]
fn cycles_of_one_layer_are_found() {
    let tree = fixture(&[("ground", "first"), ("first", "second"), ("second", "ground")]);
    let violations = check_tree(&tree, &[&["ground", "first", "second", "roof"]]);
    assert_eq!(violations, ["modules in a circle: first -> second -> ground -> first"]);
}

/// A façade `room`, its children and a neighbour.
fn room(facade: &str, lower: &str, upper: &str) -> SourceTree {
    tree(&[
        ("lib.rs", "mod room; mod other;"),
        ("room/mod.rs", &format!("mod lower; mod upper; pub use lower::Low; pub use upper::High; {facade}")),
        ("room/lower.rs", &format!("pub struct Low; {lower}")),
        ("room/upper.rs", upper),
        ("other.rs", "use crate::room::High;"),
    ])
}

#[test]
fn cycles_of_files_follow_reexports() {
    // `super::Low` is declared in lower.rs: no import of mod.rs.
    assert_eq!(check_tree_files(&room("", "", "use super::Low;"), "room"), [""; 0]);
    assert_eq!(
        check_tree_files(&room("", "use super::High;", "use super::Low;"), "room"),
        ["files in a circle: room/lower.rs -> room/upper.rs -> room/lower.rs"]
    );
    assert_eq!(
        check_tree_files(&room("use crate::other::Thing;", "", "use super::Thing;"), ""),
        ["files in a circle: other.rs -> room/upper.rs -> other.rs"]
    );
}

#[test]
fn each_item_of_a_facade_is_a_file_of_its_own() {
    let facade = "use self::upper::Upper; pub trait Contract {} pub fn open() -> Upper { Upper::new() }";
    assert_eq!(
        check_tree_files(&room(facade, "", "use super::Contract; pub struct Upper;"), "room"),
        [""; 0]
    );
    assert_eq!(
        check_tree_files(&room(facade, "", "use super::open; pub struct Upper;"), "room"),
        ["files in a circle: room/mod.rs#open -> room/upper.rs -> room/mod.rs#open"]
    );
    // Through another item, and through the methods of a type.
    let facade = "pub struct Contract { x: u8 } impl<T> Clone for Contract { fn f() { go() } } fn go() { upper::run() }";
    assert_eq!(
        check_tree_files(&room(facade, "", "pub fn run(_: super::Contract) {}"), "room"),
        ["files in a circle: room/mod.rs#go -> room/upper.rs -> room/mod.rs#Contract -> room/mod.rs#go"]
    );
    // A trait that is imported for its methods alone counts for every item.
    let facade = "use self::upper::Extra; pub struct Contract;";
    assert_eq!(
        check_tree_files(&room(facade, "", "pub trait Extra { fn f(_: super::Contract); }"), "room"),
        ["files in a circle: room/mod.rs#Contract -> room/upper.rs -> room/mod.rs#Contract"]
    );
    // A field that is called like an item does not use it.
    let facade = "pub struct Contract { open: u8 } pub fn open() { upper::run() }";
    assert_eq!(check_tree_files(&room(facade, "", "pub fn run(_: super::Contract) {}"), "room"), [""; 0]);
    // Items of one file may need each other.
    assert_eq!(
        check_tree_files(&room("struct A(B); struct B(A);", "", "use super::{A, B};"), "room"),
        [""; 0]
    );
}

#[test]
fn children_reach_what_their_facade_hands_on() {
    let layers: &[&[&str]] = &[&["room::lower"], &["room::upper"], &["room"], &["other"]];
    assert_eq!(check_tree(&room("", "", "use super::Low;"), layers), [""; 0]);
    assert_eq!(
        check_tree(&room("", "use super::High;", ""), layers),
        ["room/lower.rs:1: super::High: `room::lower` imports from `room::upper`, a higher layer"]
    );
    assert_eq!(
        check_tree(&room("pub struct Own;", "use super::Own;", ""), layers),
        ["room/lower.rs:1: super::Own: `room::lower` imports from `room`, a higher layer"]
    );
    // Handed on from another crate.
    assert_eq!(check_tree(&room("pub use serde::Own;", "use super::Own;", ""), layers), [""; 0]);
}

#[test]
fn a_wrong_order_of_this_crate_fails() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert!(file_imports(&source).unwrap().iter().any(|line| line.ends_with("-> tokens.rs")));
    assert_eq!(
        check(&source, &[&[ROOT], &["scan"], &["tokens", "graph", "items"], &["source"], &["files"]])
            .unwrap_err()
            .len(),
        4
    );
}
