//! Imports of JavaScript and TypeScript: relative paths, aliases of `tsconfig.json`, and packages of the same tree.

use crate::resolve::bindings::{BoundName, FileLinks};
use crate::resolve::index::{TreeIndex, folder, join};

/// Ends that an import may leave out, in the order of Node and TypeScript.
const ENDS: &[&str] =
    &[".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".d.mts", ".d.cts"];
/// Written ends that stand for a source of TypeScript.
const COMPILED_ENDS: &[(&str, &[&str])] = &[
    (".js", &[".ts", ".tsx", ".d.ts"]),
    (".jsx", &[".tsx"]),
    (".mjs", &[".mts", ".d.mts"]),
    (".cjs", &[".cts", ".d.cts"]),
];
/// Modules that come with Node.
const BUILT_IN: &[&str] = &[
    "assert",
    "async_hooks",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "constants",
    "crypto",
    "dgram",
    "dns",
    "domain",
    "events",
    "fs",
    "http",
    "http2",
    "https",
    "inspector",
    "module",
    "net",
    "os",
    "path",
    "perf_hooks",
    "process",
    "punycode",
    "querystring",
    "readline",
    "repl",
    "stream",
    "string_decoder",
    "sys",
    "timers",
    "tls",
    "tty",
    "url",
    "util",
    "v8",
    "vm",
    "wasi",
    "worker_threads",
    "zlib",
    "test",
];

pub(super) fn link(index: &TreeIndex<'_>, file: usize) -> FileLinks {
    let mut links = FileLinks::default();
    for import in &index.scans[file].imports {
        let Some(found) = target(index, file, &import.module) else {
            library(&mut links, &import.module, import.line);
            continue;
        };
        links.link(found, import.line, &import.symbol, None);
        if let Some(alias) = &import.alias {
            links.bind(alias, BoundName::File(found));
        }
        for name in &import.names {
            let defined = index.defines(found, &name.name).then(|| name.name.clone());
            if defined.is_some() {
                links.link(found, name.line, &name.name, defined);
            }
            let bound = if name.name == "default" {
                default_of(index, found, &name.local)
            } else {
                BoundName::Symbol(found, name.name.clone())
            };
            links.bind(&name.local, bound);
        }
        if import.wildcard {
            links.wildcards.push(found);
        }
    }
    links
}

/// What a default import most likely is: the symbol of the same name, else the file.
fn default_of(index: &TreeIndex<'_>, file: usize, local: &str) -> BoundName {
    if index.defines(file, local) { BoundName::Symbol(file, local.to_owned()) } else { BoundName::File(file) }
}

fn library(links: &mut FileLinks, module: &str, line: u32) {
    if module.starts_with(['.', '/', '#']) || module.contains("://") {
        return;
    }
    let standard = module.strip_prefix("node:");
    let name = standard.unwrap_or(module);
    let parts = if name.starts_with('@') { 2 } else { 1 };
    let name = name.split('/').take(parts).collect::<Vec<_>>().join("/");
    let known = standard.is_some() || BUILT_IN.contains(&name.as_str());
    links.library(&name, line, known);
}

/// The file that a specifier names.
fn target(index: &TreeIndex<'_>, file: usize, module: &str) -> Option<usize> {
    let module = module.split(['?', '!']).next().unwrap_or(module);
    let here = folder(&index.paths[file]);
    if module.starts_with('.') {
        return with_ends(index, &join(here, module)?);
    }
    if let Some(rest) = module.strip_prefix('/') {
        return with_ends(index, rest);
    }
    let aliased = index.manifests.javascript_aliases(here, module);
    if let Some(found) = aliased.iter().find_map(|path| with_ends(index, path)) {
        return Some(found);
    }
    index.manifests.javascript_package(module).iter().find_map(|path| with_ends(index, path))
}

/// The file of a path that may lack its end or name a folder.
fn with_ends(index: &TreeIndex<'_>, path: &str) -> Option<usize> {
    let with = |base: &str| ENDS.iter().find_map(|end| index.file(&format!("{base}{end}")));
    let compiled = || {
        let (end, sources) = COMPILED_ENDS.iter().find(|(end, _)| path.ends_with(end))?;
        let stem = path.strip_suffix(end)?;
        sources.iter().find_map(|source| index.file(&format!("{stem}{source}")))
    };
    let index_file = || with(&if path.is_empty() { "index".to_owned() } else { format!("{path}/index") });
    let main = || {
        let main = index.manifests.javascript_main(path)?;
        let full = join(path, &main)?;
        // Not by this function again: a main that names itself would not end.
        index.file(&full).or_else(|| with(&full)).or_else(|| with(&format!("{full}/index")))
    };
    index.file(path).or_else(|| with(path)).or_else(compiled).or_else(main).or_else(index_file)
}
