//! Which functions the calls of Python run: what is found, and what is left alone because it is not certain.

use sandyard_explain::facts::{ProjectFacts, UseKind};
use sandyard_survey::{FileTree, SurveyLimits, survey};

fn facts(files: &[(&str, &str)]) -> ProjectFacts {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    survey(&FileTree::new("x", files), SurveyLimits::default())
}

/// Calls as `from > to`, with a mark for those that were handed over.
fn calls(files: &[(&str, &str)]) -> Vec<String> {
    let facts = facts(files);
    let mut found: Vec<String> = facts
        .uses
        .iter()
        .filter(|one| matches!(one.kind, UseKind::Call | UseKind::Indirect))
        .map(|one| {
            let mark = if one.kind == UseKind::Indirect { " (given)" } else { "" };
            let from = one.from_symbol.as_deref().unwrap_or("-");
            format!("{from} > {}{mark}", one.to_symbol.as_deref().unwrap_or("-"))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn main_calls(text: &str) -> Vec<String> {
    calls(&[("main.py", text)])
}

#[test]
fn values_are_followed_through_parameters_returns_and_closures() {
    let text = "def a(): pass\ndef take(f, *rest, **named):\n    f()\n    rest[0]()\n    named['k']()\ndef b(): pass\ndef c(): pass\ndef make():\n    def inner():\n        b()\n    return inner\ntake(a, b, k=c)\nmake()()\n";
    assert_eq!(
        main_calls(text),
        ["- > make", "- > make.inner", "- > take", "make.inner > b", "take > a", "take > b", "take > c"]
    );
}

#[test]
fn the_last_assignment_counts_where_order_is_known() {
    let text = "def a(): pass\ndef b(): pass\nx = a\nx = b\nx()\nd = {'k': a}\nd['k'] = b\nd['k']()\nif x:\n    y = a\nelse:\n    y = b\ny()\n";
    assert_eq!(main_calls(text), ["- > a", "- > b"]);
    let text = "def a(): pass\ndef b(): pass\nx = a\nx = b\nx()\n";
    assert_eq!(main_calls(text), ["- > b"]);
}

#[test]
fn methods_are_found_in_the_order_of_bases_and_by_super() {
    let text = "class A:\n    def run(self):\n        self.step()\n    def step(self): pass\nclass B(A):\n    def step(self):\n        super().step()\nclass C(A):\n    def step(self): pass\nclass D(B, C): pass\nd = D()\nd.run()\n";
    // `A.run` is called for a `D`, and may be for an `A`; what `super()` means depends on the class of the instance.
    assert_eq!(
        main_calls(text),
        ["- > A.run", "- > D", "A.run > A.step", "A.run > B.step", "B.step > A.step", "B.step > C.step"]
    );
}

#[test]
fn decorators_of_the_project_replace_what_they_decorate_and_others_do_not() {
    let text = "import functools\nfrom lib import outside\ndef dec(f):\n    @functools.wraps(f)\n    def inner(*args):\n        return f(*args)\n    return inner\n@dec\ndef a(): pass\n@outside\ndef b(): pass\na()\nb()\n";
    assert_eq!(main_calls(text), ["- > b", "- > dec", "- > dec.inner", "dec.inner > a"]);
}

#[test]
fn loops_contexts_and_properties_call_what_python_calls() {
    let text = "class R:\n    def __enter__(self):\n        return self\n    def __exit__(self, *e): pass\n    def __iter__(self):\n        yield self.go\n    def go(self): pass\n    @property\n    def size(self):\n        return 1\nwith R() as r:\n    r.size\n    for f in r:\n        f()\n";
    assert_eq!(
        main_calls(text),
        ["- > R", "- > R.__enter__", "- > R.__exit__", "- > R.__iter__", "- > R.go", "- > R.size"]
    );
}

#[test]
fn a_property_that_is_read_by_its_name_runs_where_that_is_done() {
    let text = "class R:\n    @property\n    def size(self):\n        return 1\nclass S:\n    @property\n    def size(self):\n        return 2\ndef f():\n    return getattr(R(), 'size', None)\nf()\n";
    let facts = facts(&[("main.py", text)]);
    let read = facts.uses.iter().find(|one| one.to_symbol.as_deref() == Some("R.size"));
    assert_eq!(read.map(|one| (one.line, one.symbol.as_str())), Some((10, "getattr")));
}

#[test]
fn what_is_handed_over_between_files_is_no_dependency() {
    let files =
        [("lib.py", "def run(f):\n    f()\n"), ("app.py", "import lib\ndef work(): pass\nlib.run(work)\n")];
    assert_eq!(calls(&files), ["- > run", "run > work (given)"]);
    let facts = facts(&files);
    let path = |file: usize| facts.files[file].path.as_str();
    let pairs: Vec<(&str, &str)> = facts.dependencies().map(|one| (path(one.from), path(one.to))).collect();
    assert!(pairs.iter().all(|pair| *pair == ("app.py", "lib.py")), "{pairs:?}");
}

#[test]
fn dotted_imports_are_followed_through_every_package() {
    let files = [
        ("a/__init__.py", ""),
        ("a/b/__init__.py", ""),
        ("a/b/c.py", "def f(): pass\n"),
        ("main.py", "import a.b.c\nimport a.b\na.b.c.f()\n"),
    ];
    assert_eq!(calls(&files), ["- > f"]);
}

#[test]
fn a_switchboard_and_what_comes_from_outside_are_left_alone() {
    let handlers: String = (0..30).map(|at| format!("def h{at}(): pass\ntable['k{at}'] = h{at}\n")).collect();
    let text = format!("table = {{}}\n{handlers}def run(key):\n    table[key]()\n");
    assert_eq!(main_calls(&text), Vec::<String>::new());
    let text = "import json\nfrom lib import make\ndef f(x, y=json.loads):\n    x()\n    y()\n    make().run()\n    unknown()\n";
    assert_eq!(main_calls(text), Vec::<String>::new());
}

#[test]
fn hostile_code_ends() {
    let nested = format!("x = {}1{}\n", "[".repeat(3000), "]".repeat(3000));
    let circle = "class A(B): pass\nclass B(A):\n    def f(self):\n        return self.f\nx = B()\nwhile x:\n    x = x.f()\n    x()\n";
    let names: String = (0..3000).map(|at| format!("def f{at}(g):\n    g(f{at})\n    return g\n")).collect();
    let calls: String = (0..3000).map(|at| format!("f{at}(f{})\n", (at * 7) % 3000)).collect();
    let files =
        [("nested.py", nested), ("circle.py", circle.to_owned()), ("many.py", format!("{names}{calls}"))];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let first = facts(&files);
    assert_eq!(first, facts(&files), "the same bytes have the same facts");
}
