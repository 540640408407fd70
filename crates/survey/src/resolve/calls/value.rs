//! What a name may stand for.

/// A body of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BodyId(pub(super) u32);

/// A spelling of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameId(pub(super) u32);

/// A place where a value is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SiteId(pub(super) u32);

/// Different values of a set. A name with more is a switchboard, of which nothing certain can be said.
const MAX_VALUES: usize = 16;
/// Different texts and numbers of a set, which only matter as keys.
const MAX_LITERALS: usize = 8;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum AbstractValue {
    Function(BodyId),
    Method {
        function: BodyId,
        receiver: MethodReceiver,
    },
    Class(BodyId),
    Instance(BodyId),
    /// A file.
    Module(u32),
    /// The beginning of a dotted name that an import of a file binds.
    Package {
        file: u32,
        path: NameId,
    },
    /// A list, tuple, set or dictionary.
    Container(SiteId),
    ContainerMethod {
        site: SiteId,
        name: NameId,
    },
    Generator(BodyId),
    /// What `super()` is inside of a class, for an instance of another.
    Parent {
        class: BodyId,
        receiver: BodyId,
    },
    Builtin(BuiltinFunction),
    Text(NameId),
    Number(i32),
}

/// What a method is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum MethodReceiver {
    Instance(BodyId),
    Class(BodyId),
}

impl MethodReceiver {
    pub(super) fn value(self) -> AbstractValue {
        match self {
            Self::Instance(class) => AbstractValue::Instance(class),
            Self::Class(class) => AbstractValue::Class(class),
        }
    }
}

/// Functions of the language that pass values on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum BuiltinFunction {
    Super,
    /// Calls its first argument with elements of the second.
    Map,
    /// The elements of its argument, in a new container.
    Copy,
    Enumerate,
    Zip,
    Next,
    Getattr,
}

impl BuiltinFunction {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "super" => Some(Self::Super),
            "map" => Some(Self::Map),
            "list" | "tuple" | "set" | "frozenset" | "iter" | "sorted" | "reversed" => Some(Self::Copy),
            "enumerate" => Some(Self::Enumerate),
            "zip" => Some(Self::Zip),
            "next" => Some(Self::Next),
            "getattr" => Some(Self::Getattr),
            _ => None,
        }
    }
}

/// Values that a name may have, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueSet {
    values: Vec<AbstractValue>,
    /// There were too many: the set stays empty but for literals.
    overflowed: bool,
}

impl ValueSet {
    pub(super) fn one(value: AbstractValue) -> Self {
        Self { values: vec![value], overflowed: false }
    }

    /// Adds a value and tells whether the set is another now.
    pub(super) fn add(&mut self, value: AbstractValue) -> bool {
        let Err(place) = self.values.binary_search(&value) else { return false };
        let is_literal =
            |value: &AbstractValue| matches!(value, AbstractValue::Text(_) | AbstractValue::Number(_));
        let same_kind = self.values.iter().filter(|other| is_literal(other) == is_literal(&value)).count();
        if is_literal(&value) {
            // A lost key only means that a use is not found.
            if same_kind >= MAX_LITERALS {
                return false;
            }
        } else if self.overflowed {
            return false;
        } else if same_kind >= MAX_VALUES {
            self.overflowed = true;
            self.values.retain(is_literal);
            return true;
        }
        self.values.insert(place, value);
        true
    }

    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut changed = false;
        if other.overflowed && !self.overflowed {
            self.overflowed = true;
            self.values.retain(|value| matches!(value, AbstractValue::Text(_) | AbstractValue::Number(_)));
            changed = true;
        }
        for value in &other.values {
            changed |= self.add(*value);
        }
        changed
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = AbstractValue> + '_ {
        self.values.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn contains(&self, value: AbstractValue) -> bool {
        self.values.binary_search(&value).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_is_too_large_says_nothing_and_never_changes_back() {
        let mut set = ValueSet::default();
        assert!(set.add(AbstractValue::Number(1)));
        for body in 0..MAX_VALUES as u32 {
            assert!(set.add(AbstractValue::Function(BodyId(body))));
        }
        assert!(set.add(AbstractValue::Function(BodyId(99))), "it is another: empty");
        assert_eq!(set.iter().collect::<Vec<_>>(), [AbstractValue::Number(1)]);
        assert!(!set.add(AbstractValue::Function(BodyId(1))));
        let mut other = ValueSet::one(AbstractValue::Function(BodyId(1)));
        assert!(other.join(&set) && !other.join(&set));
        assert_eq!(other, set);
    }
}
