//! Outlines of small sources in every language, and of any bytes.

use proptest::prelude::*;

use super::*;

/// Kind, name and parent of each definition, with the first and the last line.
fn shape(language: SourceLanguage, source: &str) -> Vec<String> {
    let outline = outline(language, source.as_bytes()).unwrap();
    let name = |index: usize| outline.definitions[index].name.clone();
    let line = |definition: &SourceDefinition| {
        let parent = definition.parent.map(|index| format!(" in {}", name(index))).unwrap_or_default();
        let (first, last) = definition.lines;
        format!("{:?} {}{parent} {first}-{last}", definition.kind, definition.name)
    };
    outline.definitions.iter().map(line).collect()
}

#[test]
fn python() {
    let source = "LIMIT = 3\n\n# About f.\n# More.\n@wraps\ndef f(a):\n    def inner(): pass\n\n\nclass A:\n    x = 1\n    @property\n    def m(self):\n        y = 2\n";
    assert_eq!(
        shape(SourceLanguage::Python, source),
        [
            "Constant LIMIT 1-1",
            "Function f 3-7",
            "Function inner in f 7-7",
            "Class A 10-14",
            "Method m in A 12-14"
        ]
    );
}

#[test]
fn javascript_and_typescript() {
    let source = "/** Doc. */\nexport const add = (a, b) => {\n  const hidden = 1;\n  return a + b;\n};\nexport default class Shop {\n  open() {}\n}\nmodule.exports.run = function () {};\nlet a = 1, b = 2;\n";
    assert_eq!(
        shape(SourceLanguage::JavaScript, source),
        [
            "Function add 1-5",
            "Class Shop 6-8",
            "Method open in Shop 7-7",
            "Function run 9-9",
            "Constant a 10-10",
            "Constant b 10-10"
        ]
    );
    let source = "export interface Item { id: string }\nexport type Id = string;\nenum Kind { A }\nnamespace N { export function f(): void {} }\n@Injectable()\nexport class S {}\n";
    assert_eq!(
        shape(SourceLanguage::TypeScript, source),
        [
            "Interface Item 1-1",
            "TypeAlias Id 2-2",
            "Enum Kind 3-3",
            "Module N 4-4",
            "Function f in N 4-4",
            "Class S 5-6"
        ]
    );
}

#[test]
fn rust() {
    let source = "mod other;\n/// Doc.\n#[derive(Debug)]\npub struct S<T> { a: T }\n\nimpl<T> S<T> {\n    /// Doc.\n    pub fn f(&self) {\n        const HIDDEN: u8 = 1;\n    }\n}\nmod inner {\n    pub const C: u8 = 1;\n}\nmacro_rules! m { () => {} }\n";
    assert_eq!(
        shape(SourceLanguage::Rust, source),
        [
            "Struct S 2-4",
            "Implementation S 6-11",
            "Method f in S 7-10",
            "Module inner 12-14",
            "Constant C in inner 13-13",
            "Macro m 15-15"
        ]
    );
}

#[test]
fn go_and_java() {
    let source = "package a\n\n// S is.\ntype S struct{}\n\n// F does.\nfunc (s *S) F() { const x = 1 }\n\nfunc main() {}\n\nconst (\n\tA = 1\n\tB = 2\n)\n";
    assert_eq!(
        shape(SourceLanguage::Go, source),
        ["Struct S 3-4", "Method F 6-7", "Function main 9-9", "Constant A 12-12", "Constant B 13-13"]
    );
    let source = "package a;\n/** Doc. */\n@Deprecated\npublic class A {\n  A() {}\n  void m() {}\n  enum E { X }\n}\n";
    assert_eq!(
        shape(SourceLanguage::Java, source),
        ["Class A 2-8", "Method A in A 5-5", "Method m in A 6-6", "Enum E in A 7-7"]
    );
}

#[test]
fn c_and_cpp() {
    let source = "#define N 3\n/* Doc. */\nstatic int *f(int a) {\n  struct p x;\n  return 0;\n}\nint g(void);\nstruct p { int a; };\ntypedef unsigned id_t;\n";
    assert_eq!(
        shape(SourceLanguage::C, source),
        ["Macro N 1-1", "Function f 2-6", "Declaration g 7-7", "Struct p 8-8", "TypeAlias id_t 9-9"]
    );
    let source =
        "namespace n {\ntemplate <class T>\nclass A {\n public:\n  void m() {}\n};\nvoid A::x() {}\n}\n";
    assert_eq!(
        shape(SourceLanguage::Cpp, source),
        ["Module n 1-8", "Class A in n 2-6", "Method m in A 5-5", "Function A::x in n 7-7"]
    );
}

#[test]
fn signatures_end_before_bodies() {
    let source = "# Doc.\ndef f(\n    a,\n) -> int:\n    return 1\n";
    let outline = outline(SourceLanguage::Python, source.as_bytes()).unwrap();
    assert_eq!(&source[outline.definitions[0].signature.clone()], "def f(\n    a,\n) -> int:");
}

proptest! {
    #[test]
    fn any_bytes_give_ranges_inside_the_source(bytes in proptest::collection::vec(any::<u8>(), 0..400), which in 0_usize..9) {
        let languages = [
            SourceLanguage::Python, SourceLanguage::JavaScript, SourceLanguage::TypeScript, SourceLanguage::Tsx,
            SourceLanguage::Rust, SourceLanguage::Go, SourceLanguage::Java, SourceLanguage::C, SourceLanguage::Cpp,
        ];
        let found = outline(languages[which], &bytes).unwrap();
        for (index, definition) in found.definitions.iter().enumerate() {
            prop_assert!(definition.bytes.end <= bytes.len());
            prop_assert!(definition.signature.start <= definition.signature.end);
            prop_assert!(definition.parent.is_none_or(|parent| parent < index));
        }
    }
}
