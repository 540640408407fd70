//! What was found in a tree of files: the only source of everything that this crate draws and writes.
//!
//! All lists are sorted, so the same tree has the same facts. Positions are lines counted from 1. Files are named by
//! their index in [`ProjectFacts::files`].

use serde::{Deserialize, Serialize};

/// Version of the serialized form. A reader of another version must not interpret it.
pub const FACTS_VERSION: u32 = 1;

/// Everything that is known about one tree of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFacts {
    /// [`FACTS_VERSION`].
    pub version: u32,
    /// Name of the folder.
    pub name: String,
    /// Name that the README gives the project.
    #[serde(default)]
    pub title: Option<String>,
    /// First paragraph of the README.
    pub readme: Option<String>,
    /// Source files by path.
    pub files: Vec<FileFacts>,
    /// Uses of one file by another.
    pub uses: Vec<FileUse>,
    /// Uses of libraries that are not part of the tree.
    pub libraries: Vec<LibraryUse>,
    /// Where execution begins.
    pub entries: Vec<EntryFact>,
    /// Routes of HTTP servers.
    pub routes: Vec<RouteFact>,
    /// Databases, queues and the like.
    pub stores: Vec<StoreFact>,
    /// Files that describe the project for tools.
    pub manifests: Vec<ManifestFact>,
    /// Notes of the authors that something is unfinished.
    pub marks: Vec<MarkFact>,
    /// Files that are not among [`files`](Self::files), by reason.
    pub left_out: LeftOutCounts,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRole {
    /// Part of the program.
    Source,
    /// Tests it.
    Test,
    /// Shows its use, or measures it.
    Example,
}

/// How much of a file is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileDepth {
    /// By a grammar.
    Deep,
    /// By a grammar that found mistakes, so that something may be missing.
    WithErrors,
    /// By lines: the language has no grammar here, or the file exceeds a bound.
    Lines,
}

/// One source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Path from the folder, with slashes.
    pub path: String,
    /// Name of the language.
    pub language: String,
    /// Number of lines.
    pub lines: u32,
    /// What the file is for.
    pub role: FileRole,
    /// How much of it is understood.
    pub depth: FileDepth,
    /// First sentence of the file's documentation.
    pub doc: Option<String>,
    /// Definitions, in source order.
    pub symbols: Vec<SymbolFact>,
    /// Hash of the bytes, to see whether the file changed.
    pub hash: u64,
}

/// One definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolFact {
    /// Name; a method's is `Type.method`.
    pub name: String,
    /// Kind, as people call it: function, method, class and so on.
    pub kind: String,
    /// Line of the name.
    pub line: u32,
    /// Last line of the definition.
    pub last_line: u32,
    /// True if other files may use it.
    pub public: bool,
    /// First sentence of its documentation.
    pub doc: Option<String>,
}

/// Kinds of uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UseKind {
    /// An import, include, or declaration of a module.
    Import,
    /// A call of a function or method.
    Call,
    /// A mention of a type, constant or function without a call.
    Reference,
    /// A call of something that was handed over: the file does not import, even by others, what it calls.
    Indirect,
}

/// A use of one file by another, with its evidence: `symbol` stands in `line` of the file `from`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileUse {
    /// The file that uses.
    pub from: usize,
    /// The file that is used.
    pub to: usize,
    /// Kind of use.
    pub kind: UseKind,
    /// Line in `from`.
    pub line: u32,
    /// Text in that line that names what is used.
    pub symbol: String,
    /// Definition in `from` around the line.
    pub from_symbol: Option<String>,
    /// Definition in `to` that is used.
    pub to_symbol: Option<String>,
}

/// A use of a library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LibraryUse {
    /// Name of the library.
    pub name: String,
    /// True if it comes with the language.
    pub standard: bool,
    /// The file that uses it first.
    pub file: usize,
    /// Line of the import there.
    pub line: u32,
    /// Number of files that use it.
    pub files: u32,
}

/// Where execution begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EntryFact {
    /// The file.
    pub file: usize,
    /// Line of the evidence.
    pub line: u32,
    /// Function that is called first, or text that marks the entry.
    pub symbol: String,
    /// Name for people, such as the name of the command.
    pub name: String,
    /// Command that starts it, if it is known.
    pub command: Option<String>,
    /// Where a manifest declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<DeclaredPlace>,
}

/// A line of a manifest that names a file or a module: `symbol` stands in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeclaredPlace {
    /// The manifest.
    pub path: String,
    /// Its line.
    pub line: u32,
    /// Text in that line.
    pub symbol: String,
}

/// A route of an HTTP server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RouteFact {
    /// The file.
    pub file: usize,
    /// Line of the route.
    pub line: u32,
    /// Method in capitals, or `ANY`.
    pub method: String,
    /// Path, as written.
    pub path: String,
    /// Function that answers, if it is known.
    pub handler: Option<String>,
}

/// A data store that a file talks to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StoreFact {
    /// Name of the store, such as `PostgreSQL`.
    pub name: String,
    /// The file.
    pub file: usize,
    /// Line of the evidence.
    pub line: u32,
    /// Text in that line.
    pub symbol: String,
}

/// A command that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CommandFact {
    /// What it is for.
    pub purpose: CommandPurpose,
    /// The command as typed in the folder of the manifest.
    pub command: String,
}

/// Purposes of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandPurpose {
    /// Installs what the project needs.
    Install,
    /// Builds it.
    Build,
    /// Runs it.
    Run,
    /// Tests it.
    Test,
    /// Checks style or types.
    Check,
}

/// A file that describes the project for a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFact {
    /// Path from the folder.
    pub path: String,
    /// What it is, such as `package.json`.
    pub kind: String,
    /// Name of the package.
    pub name: Option<String>,
    /// Its own description.
    pub description: Option<String>,
    /// Names of the libraries that it asks for, without those for development.
    pub dependencies: Vec<String>,
    /// Commands.
    pub commands: Vec<CommandFact>,
    /// Services, images or jobs that it names.
    pub services: Vec<String>,
}

/// A note that something is unfinished.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MarkFact {
    /// The file.
    pub file: usize,
    /// The line.
    pub line: u32,
    /// The note, cut to 120 characters.
    pub text: String,
}

/// Numbers of files that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutCounts {
    /// Code of others that lies in the tree, counted by folder where a whole folder is vendored.
    pub vendored: u32,
    /// Written by a program.
    pub generated: u32,
    /// Not text.
    pub binary: u32,
    /// Listed in `.gitignore`.
    pub ignored: u32,
    /// Symbolic links, devices, unreadable files.
    pub unreadable: u32,
    /// Beyond the bounds on files, bytes or depth.
    pub beyond_bounds: u32,
    /// Text that is not code: documents, data, settings.
    pub other_text: u32,
}

/// A language and how much there is of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanguageShare {
    /// Name of the language.
    pub name: String,
    /// Files.
    pub files: u32,
    /// Lines.
    pub lines: u64,
}

/// What is known about the job that made the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobNotes {
    /// Commands that ended with status 0, oldest first.
    pub succeeded_commands: Vec<String>,
    /// True if a job made the project; else somebody asked about a folder.
    #[serde(default)]
    pub of_job: bool,
}

impl ProjectFacts {
    /// Uses of one file by another that stand in its text. Only these are drawn: a file that calls what it was given does
    /// not depend on it.
    pub fn dependencies(&self) -> impl Iterator<Item = &FileUse> {
        self.uses.iter().filter(|one| one.from != one.to && one.kind != UseKind::Indirect)
    }

    /// What the project is called: by its own manifest, its README, or its folder.
    pub fn project_name(&self) -> &str {
        let own = self.manifests.iter().filter(|manifest| !manifest.path.contains('/'));
        let named = own.into_iter().find_map(|manifest| manifest.name.as_deref());
        let name = named.or(self.title.as_deref()).unwrap_or(&self.name);
        if name.is_empty() { "This project" } else { name }
    }

    /// Languages of the program and its tests by lines, most first.
    pub fn languages(&self) -> Vec<LanguageShare> {
        let mut shares: Vec<LanguageShare> = Vec::new();
        for file in self.files.iter().filter(|file| file.role != FileRole::Example) {
            let lines = u64::from(file.lines);
            match shares.iter_mut().find(|share| share.name == file.language) {
                Some(share) => {
                    share.files += 1;
                    share.lines += lines;
                }
                None => shares.push(LanguageShare { name: file.language.clone(), files: 1, lines }),
            }
        }
        shares.sort_by(|left, right| right.lines.cmp(&left.lines).then(left.name.cmp(&right.name)));
        shares
    }

    /// Total number of lines of files with this role.
    pub fn lines(&self, role: FileRole) -> u64 {
        self.files.iter().filter(|file| file.role == role).map(|file| u64::from(file.lines)).sum()
    }
}
