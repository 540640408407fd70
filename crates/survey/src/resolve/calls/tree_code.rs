//! The code of all Python files, with one numbering of bodies, names and sites.

use std::collections::{BTreeMap, HashMap};

use crate::resolve::bindings::FileLinks;
use crate::resolve::calls::value::{BodyId, NameId, SiteId};
use crate::resolve::index::TreeIndex;
use crate::scan::code::{BodyKind, CodeBody, NameIndex};

/// Bodies that are looked at. Files beyond are resolved by their mentions alone.
const MAX_BODIES: usize = 150_000;

/// The code of a tree.
pub(super) struct TreeCode<'tree> {
    pub(super) index: &'tree TreeIndex<'tree>,
    pub(super) links: &'tree [FileLinks],
    bodies: Vec<PlacedBody<'tree>>,
    /// The module of each file that has code.
    modules: BTreeMap<usize, BodyId>,
    names: HashMap<&'tree str, NameId>,
    spellings: Vec<&'tree str>,
    /// Names of each file, by its own numbers.
    file_names: BTreeMap<usize, Vec<NameId>>,
    /// Number of the first site of each file.
    first_sites: BTreeMap<usize, u32>,
}

/// A body and where it is.
pub(super) struct PlacedBody<'tree> {
    pub(super) file: usize,
    pub(super) code: &'tree CodeBody,
    pub(super) around: Option<BodyId>,
    /// True if another body is inside, which may read the names of this one.
    pub(super) has_inner: bool,
    bound: Vec<NameId>,
    outer: Vec<NameId>,
}

impl PlacedBody<'_> {
    pub(super) fn binds(&self, name: NameId) -> bool {
        self.bound.binary_search(&name).is_ok()
    }

    /// True if a name was declared to be of a body around.
    pub(super) fn is_outer(&self, name: NameId) -> bool {
        self.outer.binary_search(&name).is_ok()
    }
}

impl<'tree> TreeCode<'tree> {
    pub(super) fn new(index: &'tree TreeIndex<'tree>, links: &'tree [FileLinks]) -> Self {
        let mut tree = Self {
            index,
            links,
            bodies: Vec::new(),
            modules: BTreeMap::new(),
            names: HashMap::new(),
            spellings: Vec::new(),
            file_names: BTreeMap::new(),
            first_sites: BTreeMap::new(),
        };
        let mut sites = 0_u32;
        for (file, scan) in index.scans.iter().enumerate() {
            // A stub declares what another file defines.
            let Some(code) = scan.code.as_ref().filter(|_| !index.paths[file].ends_with(".pyi")) else {
                continue;
            };
            if tree.bodies.len() + code.bodies.len() > MAX_BODIES {
                continue;
            }
            let names: Vec<NameId> = code.names.iter().map(|name| tree.intern(name)).collect();
            let first = tree.bodies.len() as u32;
            let sorted = |list: &[NameIndex]| {
                let mut list: Vec<NameId> = list.iter().map(|name| names[*name as usize]).collect();
                list.sort_unstable();
                list
            };
            for body in &code.bodies {
                tree.bodies.push(PlacedBody {
                    file,
                    code: body,
                    around: body.around.map(|around| BodyId(first + around as u32)),
                    has_inner: false,
                    bound: sorted(&body.bound),
                    outer: sorted(&body.outer),
                });
            }
            for at in first as usize..tree.bodies.len() {
                if let Some(around) = tree.bodies[at].around {
                    tree.bodies[around.0 as usize].has_inner = true;
                }
            }
            tree.modules.insert(file, BodyId(first));
            tree.file_names.insert(file, names);
            tree.first_sites.insert(file, sites);
            sites += code.sites;
        }
        for links in links {
            for name in links.bindings.keys() {
                // `import a.b.c` is reached by way of `a` and `a.b`, which need numbers, too.
                for (dot, _) in name.match_indices('.') {
                    tree.intern(&name[..dot]);
                }
                tree.intern(name);
            }
        }
        tree
    }

    fn intern(&mut self, name: &'tree str) -> NameId {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let id = NameId(self.spellings.len() as u32);
        self.spellings.push(name);
        self.names.insert(name, id);
        id
    }

    /// A name that occurs in the tree.
    pub(super) fn known(&self, name: &str) -> Option<NameId> {
        self.names.get(name).copied()
    }

    pub(super) fn spelling(&self, name: NameId) -> &'tree str {
        self.spellings[name.0 as usize]
    }

    pub(super) fn name(&self, file: usize, name: NameIndex) -> NameId {
        self.file_names[&file][name as usize]
    }

    pub(super) fn first_site(&self, file: usize) -> u32 {
        self.first_sites.get(&file).copied().unwrap_or_default()
    }

    pub(super) fn site(&self, body: BodyId, site: u32) -> SiteId {
        SiteId(self.first_site(self.body(body).file) + site)
    }

    pub(super) fn body(&self, body: BodyId) -> &PlacedBody<'tree> {
        &self.bodies[body.0 as usize]
    }

    /// The body that a body of the same file names by its own number.
    pub(super) fn sibling(&self, body: BodyId, number: usize) -> BodyId {
        BodyId(self.modules[&self.body(body).file].0 + number as u32)
    }

    pub(super) fn module(&self, file: usize) -> Option<BodyId> {
        self.modules.get(&file).copied()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = usize> + '_ {
        self.modules.keys().copied()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = BodyId> + use<> {
        (0..self.bodies.len() as u32).map(BodyId)
    }

    pub(super) fn len(&self) -> usize {
        self.bodies.len()
    }

    /// The class around a function, if it is a method.
    pub(super) fn class_around(&self, function: BodyId) -> Option<BodyId> {
        self.body(function).around.filter(|around| self.body(*around).code.kind == BodyKind::Class)
    }

    /// Name of the symbol that a body is.
    pub(super) fn symbol(&self, body: BodyId) -> Option<&'tree str> {
        let placed = self.body(body);
        let symbol = self.index.scans[placed.file].symbols.get(placed.code.symbol?)?;
        Some(symbol.name.as_str())
    }
}
