//! Facts and pictures of small trees, as golden files: a change of them is seen in review.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use sandyard_explain::facts::{ProjectFacts, UseKind};
use sandyard_explain::{JobNotes, explain};
use sandyard_survey::{FileTree, SurveyLimits, survey};

/// A tree of `path` and text, one after another.
fn tree(name: &str, files: &[(&str, &str)]) -> FileTree {
    FileTree::new(name, files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())))
}

/// The facts as lines that people can compare.
fn lines(facts: &ProjectFacts) -> String {
    let path = |file: usize| facts.files[file].path.as_str();
    let mut out = String::new();
    for one in &facts.uses {
        let kind = match one.kind {
            UseKind::Import => "imports",
            UseKind::Call => "calls",
            UseKind::Reference => "mentions",
            UseKind::Indirect => "is given and calls",
        };
        let from = one.from_symbol.as_deref().unwrap_or("-");
        let to = one.to_symbol.as_deref().unwrap_or("-");
        out += &format!(
            "{}:{} {from} {kind} {} of {} ({to})\n",
            path(one.from),
            one.line,
            one.symbol,
            path(one.to)
        );
    }
    for entry in &facts.entries {
        out += &format!("entry {} at {}:{} {:?}\n", entry.name, path(entry.file), entry.line, entry.command);
    }
    for route in &facts.routes {
        out += &format!(
            "route {} {} at {}:{} {:?}\n",
            route.method,
            route.path,
            path(route.file),
            route.line,
            route.handler
        );
    }
    for store in &facts.stores {
        out += &format!("store {} at {}:{}\n", store.name, path(store.file), store.line);
    }
    for library in &facts.libraries {
        out += &format!("library {} standard={} files={}\n", library.name, library.standard, library.files);
    }
    for mark in &facts.marks {
        out += &format!("mark {}:{} {}\n", path(mark.file), mark.line, mark.text);
    }
    out
}

/// Every use is proved by a line that contains its symbol, and the same tree has the same bytes.
fn check(tree: &FileTree) -> ProjectFacts {
    let facts = survey(tree, SurveyLimits::default());
    for one in &facts.uses {
        let file = tree.get(&facts.files[one.from].path).unwrap();
        let text = String::from_utf8_lossy(&file.bytes).into_owned();
        let line = text.lines().nth(one.line as usize - 1).unwrap();
        assert!(line.contains(&one.symbol), "{line} has no {}", one.symbol);
    }
    let again = survey(tree, SurveyLimits { threads: 1, ..SurveyLimits::default() });
    assert_eq!(facts, again);
    assert_eq!(explain(&facts, &JobNotes::default()), explain(&again, &JobNotes::default()));
    facts
}

#[test]
fn python_service() {
    let tree = tree(
        "shop",
        &[
            (
                "pyproject.toml",
                "[project]\nname = 'shop'\ndescription = 'Sells things.'\n[project.scripts]\nshop = 'shop.cli:main'\n",
            ),
            ("shop/__init__.py", "from .models import Item\nfrom . import store as storage\n"),
            (
                "shop/models.py",
                "\"\"\"Things that are sold.\"\"\"\nclass Base:\n    pass\n\nclass Item(Base):\n    def price(self):\n        return self.tax() + 1\n\n    def tax(self):\n        # TODO: real taxes\n        return 0\n",
            ),
            (
                "shop/store.py",
                "import sqlite3\nimport json as js\nfrom shop import models\n\ndef load(path):\n    return models.Item()\n",
            ),
            ("shop/web/__init__.py", ""),
            (
                "shop/web/app.py",
                "from flask import Flask\nfrom .. import storage, Item\nfrom ..store import (\n    load,\n)\n\napp = Flask(__name__)\n\n@app.route('/items', methods=['GET', 'POST'])\ndef items():\n    return load('x').price()\n",
            ),
            (
                "shop/cli.py",
                "import shop.web.app\nimport shop.store\n\ndef main():\n    shop.store.load('y')\n    shop.web.app.items()\n\nif __name__ == '__main__':\n    main()\n",
            ),
            (
                "tests/test_models.py",
                "from shop.models import Item\n\ndef test_item():\n    assert Item().price()\n",
            ),
        ],
    );
    let facts = check(&tree);
    insta::assert_snapshot!("python_facts", lines(&facts));
    let explanation =
        explain(&facts, &JobNotes { succeeded_commands: vec!["pytest -q".to_owned()], of_job: true });
    insta::assert_snapshot!("python_dot", explanation.dot);
    insta::assert_snapshot!("python_markdown", explanation.markdown);
}

#[test]
fn javascript_workspace() {
    let tree = tree(
        "web",
        &[
            (
                "package.json",
                "{\"name\": \"web\", \"scripts\": {\"start\": \"node src/server.js\"}, \"dependencies\": {\"express\": \"4\"}}",
            ),
            (
                "tsconfig.json",
                "{\"compilerOptions\": {\"baseUrl\": \".\", \"paths\": {\"@lib/*\": [\"src/lib/*\"]}}}",
            ),
            (
                "src/server.js",
                "const express = require('express');\nconst { list } = require('./routes');\nconst app = express();\napp.get('/list', list);\napp.listen(3000);\n",
            ),
            (
                "src/routes/index.js",
                "import { Store } from '../lib/store.js';\nimport * as helpers from '../lib/helpers';\nexport function list(request, answer) {\n  const store = new Store();\n  answer.json(helpers.sort(store.all()));\n}\n",
            ),
            (
                "src/lib/store.ts",
                "import type { Item } from '@lib/types';\nexport class Store {\n  all(): Item[] { return []; }\n}\n",
            ),
            ("src/lib/types.ts", "export interface Item { id: string }\n"),
            ("src/lib/helpers.ts", "export * from './sorting';\nexport const unused = 1;\n"),
            ("src/lib/sorting.ts", "export const sort = (items: unknown[]) => items;\n"),
            (
                "src/view.tsx",
                "import { Item } from './lib/types';\nimport Box from './box';\nexport const View = (item: Item) => <Box id={item.id} />;\n",
            ),
            ("src/box.jsx", "export default function Box() { return <div />; }\n"),
        ],
    );
    let facts = check(&tree);
    insta::assert_snapshot!("javascript_facts", lines(&facts));
    insta::assert_snapshot!("javascript_dot", explain(&facts, &JobNotes::default()).dot);
}

#[test]
fn rust_workspace() {
    let tree = tree(
        "yard",
        &[
            ("Cargo.toml", "[workspace]\nmembers = ['core', 'app']\n"),
            ("core/Cargo.toml", "[package]\nname = 'yard-core'\n"),
            (
                "core/src/lib.rs",
                "//! Core of the yard.\npub mod job;\nmod store;\npub use store::{Store, open as open_store};\n",
            ),
            (
                "core/src/job.rs",
                "use crate::store::Store;\n\n/// A job.\npub struct Job;\n\nimpl Job {\n    pub fn run(&self, store: &Store) {\n        self.step();\n        store.put();\n    }\n    fn step(&self) {}\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n",
            ),
            (
                "core/src/store/mod.rs",
                "mod disk;\npub struct Store;\nimpl Store { pub fn put(&self) { disk::write(); } }\npub fn open() -> Store { Store }\n",
            ),
            ("core/src/store/disk.rs", "pub(super) fn write() { todo!() }\n"),
            (
                "app/Cargo.toml",
                "[package]\nname = 'yard-app'\n[dependencies]\nyard-core = { path = '../core' }\n",
            ),
            (
                "app/src/main.rs",
                "use std::env;\nuse yard_core::{job::{self, Job}, open_store};\n\nfn main() {\n    let store = open_store();\n    job::Job.run(&store);\n    Job.run(&store);\n    env::args();\n}\n",
            ),
        ],
    );
    let facts = check(&tree);
    insta::assert_snapshot!("rust_facts", lines(&facts));
    insta::assert_snapshot!("rust_dot", explain(&facts, &JobNotes::default()).dot);
}

#[test]
fn go_java_and_c() {
    let go = tree(
        "gate",
        &[
            ("go.mod", "module example.com/gate\n\nrequire (\n\tgithub.com/lib/pq v1\n)\n"),
            (
                "main.go",
                "package main\n\nimport (\n\t\"net/http\"\n\n\t\"example.com/gate/store\"\n)\n\nfunc main() {\n\thttp.HandleFunc(\"/x\", answer)\n\tstore.Open()\n\thelp()\n}\n",
            ),
            ("help.go", "package main\n\nfunc help() {}\n\nfunc answer() {}\n"),
            (
                "store/store.go",
                "package store\n\nimport _ \"github.com/lib/pq\"\n\nfunc Open() { row := newRow(); _ = row }\n",
            ),
            ("store/row.go", "package store\n\ntype Row struct{}\n\nfunc newRow() Row { return Row{} }\n"),
        ],
    );
    insta::assert_snapshot!("go_facts", lines(&check(&go)));
    let java = tree(
        "bank",
        &[
            (
                "src/a/Main.java",
                "package a;\n\nimport a.b.Account;\nimport java.util.List;\n\npublic class Main {\n  public static void main(String[] args) {\n    Account account = new Account();\n    Helper.run(account);\n  }\n}\n",
            ),
            (
                "src/a/Helper.java",
                "package a;\n\nimport a.b.*;\n\nclass Helper {\n  static void run(Account account) {}\n}\n",
            ),
            ("src/a/b/Account.java", "package a.b;\n\npublic class Account {}\n"),
        ],
    );
    insta::assert_snapshot!("java_facts", lines(&check(&java)));
    let c = tree(
        "tool",
        &[
            (
                "src/main.c",
                "#include <stdio.h>\n#include \"tool.h\"\n\nint main(void) {\n  return tool_run(1);\n}\n",
            ),
            ("include/tool.h", "#pragma once\nint tool_run(int level);\nstruct tool { int level; };\n"),
            (
                "src/tool.c",
                "#include <tool.h>\n\nstatic int hidden(void) { return 1; }\nint tool_run(int level) { return hidden() + level; }\n",
            ),
        ],
    );
    insta::assert_snapshot!("c_facts", lines(&check(&c)));
}

#[test]
fn cpp_library() {
    let cpp = tree(
        "graph",
        &[
            (
                "include/graph/node.hpp",
                "#pragma once\n#include <string>\n\nnamespace graph {\n\n/// A node.\nclass Node {\n public:\n  explicit Node(int id);\n  int id() const;\n\n private:\n  int id_;\n};\n\nint distance(const Node& left, const Node& right);\n\n}  // namespace graph\n",
            ),
            (
                "src/node.cpp",
                "#include \"graph/node.hpp\"\n\nnamespace graph {\n\nNode::Node(int id) : id_(id) {}\n\nint Node::id() const { return id_; }\n\nint distance(const Node& left, const Node& right) { return left.id() - right.id(); }\n\n}  // namespace graph\n",
            ),
            (
                "src/main.cc",
                "#include <vector>\n\n#include \"graph/node.hpp\"\n#include \"text.hh\"\n\ntemplate <typename T>\nT twice(T value) { return value + value; }\n\nint main() {\n  graph::Node one(1);\n  print(twice(graph::distance(one, one)));\n  return 0;\n}\n",
            ),
            ("src/text.hh", "#pragma once\nvoid print(int number);\n"),
            (
                "src/text.cc",
                "#include \"text.hh\"\n#include <iostream>\n\nvoid print(int number) { std::cout << number; }\n",
            ),
        ],
    );
    let facts = check(&cpp);
    insta::assert_snapshot!("cpp_facts", lines(&facts));
    insta::assert_snapshot!("cpp_dot", explain(&facts, &JobNotes::default()).dot);
}

#[test]
fn languages_that_are_read_by_lines() {
    let tree = tree(
        "blog",
        &[
            (
                "app.rb",
                "require 'sinatra'\nrequire_relative 'lib/store'\n\nclass App\n  def show\n    Store.new.all\n  end\nend\n",
            ),
            (
                "lib/store.rb",
                "require_relative 'post'\n\nclass Store\n  def all\n    [Post.new]\n  end\nend\n",
            ),
            ("lib/post.rb", "class Post\nend\n"),
            ("public/index.php", "<?php\nrequire_once __DIR__ . '/../src/page.php';\nrequire 'menu.php';\n"),
            ("public/menu.php", "<?php\nfunction menu() {}\n"),
            ("src/page.php", "<?php\nclass Page {}\n"),
            (
                "Bank/Program.cs",
                "using System;\nusing Bank.Model;\n\nnamespace Bank\n{\n    public class Program\n    {\n    }\n}\n",
            ),
            ("Bank/Model/Account.cs", "namespace Bank.Model\n{\n    public class Account\n    {\n    }\n}\n"),
            ("run.sh", "#!/bin/sh\n. ./lib.sh\ngreet\n"),
            ("lib.sh", "greet() {\n  echo hello\n}\n"),
            (
                "site/index.html",
                "<link rel=\"stylesheet\" href=\"main.css\">\n<script src=\"main.js\"></script>\n",
            ),
            ("site/main.css", "@import 'base.css';\n"),
            ("site/base.css", "body { margin: 0 }\n"),
            ("site/main.js", "console.log(1);\n"),
        ],
    );
    let facts = check(&tree);
    insta::assert_snapshot!("line_facts", lines(&facts));
    insta::assert_snapshot!("line_dot", explain(&facts, &JobNotes::default()).dot);
}

/// Each head of an arrow names a line of a file, and the text that stands there.
#[test]
fn drawn_arrows_are_proved() {
    let files = [
        ("package.json", "{\n  \"name\": \"tool\",\n  \"bin\": {\"tool\": \"./bin/tool.js\"}\n}\n"),
        ("bin/tool.js", "require('../lib/a');\n"),
        ("lib/a.js", "const b = require('./b');\nexports.a = () => b.b();\n"),
        ("lib/b.js", "const a = require('./a');\nexports.b = () => a.a();\n"),
    ];
    let facts = check(&tree("tool", &files));
    let dot = explain(&facts, &JobNotes::default()).dot;
    for proof in [
        "package.json:3 starts bin/tool.js",
        "bin/tool.js:1 imports",
        "lib/b.js:2 calls a (and 3 more); back: lib/a.js:2 calls b",
    ] {
        assert!(dot.contains(proof), "{proof} in {dot}");
    }
    let starts = dot.lines().find(|line| line.contains("starts bin")).unwrap();
    assert!(starts.contains("URL=\"package.json#L3\""), "{starts}");
    assert!(dot.contains("A yellow box is where a run begins"), "{dot}");
}

#[test]
fn a_file_that_is_too_long_for_its_grammar_is_found_by_its_package() {
    let long = format!("package a.b;\n\npublic class Account {{\n}}\n{}", "// filler\n".repeat(120_000));
    let files = [
        (
            "src/a/Main.java",
            "package a;\n\nimport a.b.Account;\n\npublic class Main {\n  Account account;\n}\n",
        ),
        ("src/a/b/Account.java", long.as_str()),
    ];
    let facts = check(&tree("bank", &files));
    assert!(
        lines(&facts).contains("src/a/Main.java:3 - imports a.b.Account of src/a/b/Account.java"),
        "{}",
        lines(&facts)
    );
}

#[test]
fn a_library_that_can_be_run_is_called_a_library() {
    let cli = "from .core import run\n\ndef main():\n    run()\n\nif __name__ == '__main__':\n    main()\n";
    let mut files = vec![
        ("kit/__init__.py", "from .core import run\nfrom .more import other\n"),
        ("kit/core.py", "def run():\n    pass\n"),
        ("kit/more.py", "def other():\n    pass\n"),
        ("kit/cli.py", cli),
    ];
    let markdown =
        |files: &[(&str, &str)]| explain(&check(&tree("kit", files)), &JobNotes::default()).markdown;
    let library = markdown(&files);
    assert!(library.contains("A Python library with a command."), "{library}");
    assert!(library.contains("`python -m kit.cli`"), "{library}");
    files[0].1 = "";
    let program = markdown(&files);
    assert!(program.contains("A Python program."), "{program}");
}

#[test]
fn hostile_names_are_harmless() {
    let name = "\"]; x [URL=\"javascript:alert(1)\"]; <script>alert(1)</script> `$(rm -rf /)` ](http://evil)";
    let class = "class A:\n    '''</title><script>alert(1)</script> ![x](http://evil)'''\n";
    let tree = tree(
        name,
        &[
            ("\"; rm -rf .py", "import b\nb.A()\n"),
            ("b.py", class),
            ("<img src=x onerror=alert(1)>.py", "import b\n"),
        ],
    );
    let facts = check(&tree);
    let explanation =
        explain(&facts, &JobNotes { succeeded_commands: vec!["`<script>`".to_owned()], of_job: true });
    let page = sandyard_explain::page::explained_page(name, &explanation.markdown, &[], &|link| {
        Some(link.to_owned())
    });
    for bad in ["<script", "<img", "href=\"http", "href=\"javascript"] {
        assert!(!page.contains(bad), "{bad} in {page}");
    }
    insta::assert_snapshot!("hostile_dot", explanation.dot);
}

#[test]
fn changes_are_seen_in_one_picture() {
    let before =
        tree("x", &[("a.py", "import b\nimport c\n"), ("b.py", ""), ("c.py", ""), ("d.py", "import c\n")]);
    let after = tree(
        "x",
        &[
            ("a.py", "import b\nimport e\n"),
            ("b.py", "import e\n"),
            ("d.py", "import e\n"),
            ("e.py", "x = 1\n"),
        ],
    );
    let (before, after) = (check(&before), check(&after));
    let changes = sandyard_explain::changes::compare(&before, &after);
    assert_eq!(changes.added_files, ["e.py"]);
    assert_eq!(changes.removed_files, ["c.py"]);
    assert_eq!(changes.changed_files, ["a.py", "b.py", "d.py"]);
    let structure = sandyard_explain::structure::structure(&after);
    insta::assert_snapshot!(
        "changes_dot",
        sandyard_explain::diagram::changes_dot(&after, &structure, &changes)
    );
    assert!(sandyard_explain::changes::compare(&after, &after).is_empty());
}

#[test]
fn an_empty_tree_has_an_explanation() {
    let explanation = explain(&check(&tree("", &[])), &JobNotes::default());
    assert!(explanation.markdown.contains("No source code"));
    assert!(explanation.dot.starts_with("digraph"));
}
