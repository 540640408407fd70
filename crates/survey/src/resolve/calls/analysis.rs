//! The search for a state of all cells that every body agrees with.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::resolve::calls::cells::{CellKey, CellStore, ElementKey};
use crate::resolve::calls::frames::LocalFrames;
use crate::resolve::calls::hierarchy::ClassHierarchy;
use crate::resolve::calls::tree_code::TreeCode;
use crate::resolve::calls::value::{AbstractValue, BodyId, MethodReceiver, NameId, SiteId, ValueSet};
use crate::scan::code::{BodyKind, CodeBody, MethodFlavour, ParameterKind};

/// Expressions that are evaluated: some seconds. Beyond, what was found stays, and nothing is added.
const MAX_STEPS: u64 = 24_000_000;
/// Cells: a hundred megabytes.
const MAX_CELLS: usize = 1_000_000;
/// Rounds over the bodies. Values travel at least one call in each; longer ways are rare.
const MAX_ROUNDS: usize = 40;
/// Instances that one method is looked at with. More classes inherit it, and they change nothing.
const MAX_RECEIVERS: usize = 8;

/// Text of a line that proves a call, and the place of the call if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallPlace {
    pub(super) line: u32,
    pub(super) name: NameId,
    pub(super) site: u32,
}

/// Functions and classes that the calls of a body run.
pub(super) type CallTargets = BTreeMap<CallPlace, BTreeSet<BodyId>>;

/// Everything that is known between bodies.
pub(super) struct AnalysisState {
    pub(super) cells: CellStore,
    pub(super) classes: ClassHierarchy,
    /// Containers that are dictionaries.
    pub(super) keyed: HashSet<SiteId>,
    /// Keys of each container, in the order in which they were found.
    pub(super) keys: HashMap<SiteId, Vec<ElementKey>>,
    /// A decorator that is not known returns what it decorates. Before this is assumed, all others are known.
    pub(super) trusts_decorators: bool,
    pub(super) steps: u64,
    /// Steps of the present pass and those before.
    most_steps: u64,
}

impl AnalysisState {
    pub(super) fn exhausted(&self) -> bool {
        self.steps > self.most_steps
    }
}

/// What the analysis found.
pub(super) struct AnalysedCalls {
    pub(super) targets: Vec<CallTargets>,
    /// Bodies that were interpreted to their end at least once.
    pub(super) reached: Vec<bool>,
}

/// Interprets all bodies.
pub(super) fn analyse(tree: &TreeCode<'_>) -> AnalysedCalls {
    let mut state = AnalysisState {
        cells: CellStore::new(tree.len(), MAX_CELLS),
        classes: ClassHierarchy::default(),
        keyed: HashSet::new(),
        keys: HashMap::new(),
        trusts_decorators: false,
        steps: 0,
        most_steps: 0,
    };
    let mut found = AnalysedCalls {
        targets: tree.ids().map(|_| CallTargets::new()).collect(),
        reached: vec![false; tree.len()],
    };
    for (trusts_decorators, most_steps) in [(false, MAX_STEPS / 2), (true, MAX_STEPS)] {
        (state.trusts_decorators, state.most_steps) = (trusts_decorators, most_steps);
        state.cells.all_dirty();
        for _ in 0..MAX_ROUNDS {
            if !round(tree, &mut state, &mut found) || state.exhausted() {
                break;
            }
        }
    }
    found
}

/// Interprets the bodies that may find something new. Returns false if there is none.
fn round(tree: &TreeCode<'_>, state: &mut AnalysisState, found: &mut AnalysedCalls) -> bool {
    let mut looked = false;
    for body in tree.ids() {
        if !state.cells.take_dirty(body) {
            continue;
        }
        looked = true;
        let targets = BodyRun::new(tree, state, body).run();
        // A run that was cut short knows less than an earlier one.
        if state.exhausted() {
            return looked;
        }
        found.targets[body.0 as usize] = targets;
        found.reached[body.0 as usize] = true;
    }
    looked
}

/// One body, interpreted once.
pub(super) struct BodyRun<'run, 'tree> {
    pub(super) tree: &'run TreeCode<'tree>,
    pub(super) state: &'run mut AnalysisState,
    pub(super) id: BodyId,
    pub(super) file: usize,
    pub(super) frames: LocalFrames,
    pub(super) targets: CallTargets,
}

impl<'run, 'tree> BodyRun<'run, 'tree> {
    fn new(tree: &'run TreeCode<'tree>, state: &'run mut AnalysisState, id: BodyId) -> Self {
        let file = tree.body(id).file;
        Self { tree, state, id, file, frames: LocalFrames::new(), targets: CallTargets::new() }
    }

    fn run(mut self) -> CallTargets {
        let code = self.code();
        for (at, parameter) in code.parameters.iter().enumerate() {
            let name = self.tree.name(self.file, parameter.name);
            let values = match parameter.kind {
                ParameterKind::Variadic(site) => ValueSet::one(AbstractValue::Container(self.site(site))),
                ParameterKind::Keywords(site) => {
                    let site = self.site(site);
                    self.state.keyed.insert(site);
                    ValueSet::one(AbstractValue::Container(site))
                }
                _ => self.parameter(at),
            };
            self.assign_name(name, values);
        }
        self.statements(&code.statements);
        self.targets
    }

    pub(super) fn code(&self) -> &'tree CodeBody {
        self.tree.body(self.id).code
    }

    pub(super) fn site(&self, site: u32) -> SiteId {
        self.tree.site(self.id, site)
    }

    pub(super) fn read(&mut self, key: CellKey) -> ValueSet {
        self.state.cells.read(key, self.id)
    }

    /// What callers pass, and for a method that nobody is seen to call, an instance of its class.
    fn parameter(&mut self, at: usize) -> ValueSet {
        let mut values = self.read(CellKey::Parameter(self.id, at as u32));
        if let Some(receiver) = self.own_receiver().filter(|_| at == 0) {
            values.add(receiver.value());
        }
        values
    }

    pub(super) fn own_receiver(&self) -> Option<MethodReceiver> {
        let class = self.tree.class_around(self.id)?;
        match self.code().flavour {
            MethodFlavour::Static => None,
            MethodFlavour::OfClass => Some(MethodReceiver::Class(class)),
            MethodFlavour::Plain | MethodFlavour::Property => match self.tree.symbol(self.id) {
                Some(name) if name.ends_with(".__new__") || name.ends_with(".__init_subclass__") => {
                    Some(MethodReceiver::Class(class))
                }
                _ => Some(MethodReceiver::Instance(class)),
            },
        }
    }

    /// Hands the receiver of a method over.
    pub(super) fn bind_receiver(&mut self, function: BodyId, receiver: AbstractValue) {
        let key = CellKey::Parameter(function, 0);
        let present = self.read(key);
        if present.len() < MAX_RECEIVERS && !present.contains(receiver) {
            self.state.cells.join(key, &ValueSet::one(receiver));
        }
    }

    pub(super) fn assign_name(&mut self, name: NameId, values: ValueSet) {
        let placed = self.tree.body(self.id);
        if placed.is_outer(name) {
            let owner = self.owner(name);
            return self.state.cells.join(CellKey::Variable(owner, name), &values);
        }
        if placed.has_inner || matches!(placed.code.kind, BodyKind::Module | BodyKind::Class) {
            self.state.cells.join(CellKey::Variable(self.id, name), &values);
        }
        self.frames.set(name, values);
    }

    /// The body around that binds a name, or the module.
    fn owner(&self, name: NameId) -> BodyId {
        let mut present = self.tree.body(self.id).around;
        let mut outermost = self.id;
        while let Some(body) = present {
            let placed = self.tree.body(body);
            if placed.code.kind != BodyKind::Class && placed.binds(name) {
                return body;
            }
            outermost = body;
            present = placed.around;
        }
        outermost
    }
}
