//! Bases of classes, and the order in which they are searched.

use std::collections::HashMap;

use crate::resolve::calls::value::BodyId;

/// Classes that one class is looked up in. A real hierarchy is flatter.
const MAX_ORDER: usize = 64;

/// Bases of all classes that are known so far.
#[derive(Debug, Default)]
pub(super) struct ClassHierarchy {
    bases: HashMap<BodyId, Vec<BodyId>>,
    orders: HashMap<BodyId, Vec<BodyId>>,
}

impl ClassHierarchy {
    /// Notes the bases of a class, and tells whether they were others before.
    pub(super) fn set(&mut self, class: BodyId, bases: Vec<BodyId>) -> bool {
        if self.bases.get(&class) == Some(&bases) || bases.is_empty() && !self.bases.contains_key(&class) {
            return false;
        }
        self.bases.insert(class, bases);
        self.orders.clear();
        true
    }

    /// The class and its bases in the order in which Python looks for members.
    pub(super) fn order(&mut self, class: BodyId) -> Vec<BodyId> {
        if let Some(known) = self.orders.get(&class) {
            return known.clone();
        }
        let order = self.linear(class, 0);
        self.orders.insert(class, order.clone());
        order
    }

    fn linear(&self, class: BodyId, depth: usize) -> Vec<BodyId> {
        let bases = self.bases.get(&class).map(Vec::as_slice).unwrap_or_default();
        if bases.is_empty() || depth > MAX_ORDER / 4 {
            return vec![class];
        }
        let mut lists: Vec<Vec<BodyId>> = bases.iter().map(|base| self.linear(*base, depth + 1)).collect();
        lists.push(bases.to_vec());
        let mut order = vec![class];
        while order.len() < MAX_ORDER {
            lists.retain(|list| !list.is_empty());
            let in_tail = |head: &BodyId| lists.iter().any(|list| list[1..].contains(head));
            // Without a good head Python refuses the class; the first head is as good as any then.
            let heads = || lists.iter().map(|list| list[0]);
            let Some(next) = heads().find(|head| !in_tail(head)).or_else(|| heads().next()) else { break };
            for list in &mut lists {
                list.retain(|other| *other != next);
            }
            if !order.contains(&next) {
                order.push(next);
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_searched_in_the_order_of_python() {
        let [a, b, c, d] = [0, 1, 2, 3].map(BodyId);
        let mut classes = ClassHierarchy::default();
        assert!(classes.set(b, vec![a]) && classes.set(c, vec![a]) && classes.set(d, vec![b, c]));
        assert_eq!(classes.order(d), [d, b, c, a]);
        assert!(!classes.set(d, vec![b, c]) && !classes.set(a, Vec::new()));
    }

    #[test]
    fn a_circle_of_classes_ends() {
        let [a, b] = [0, 1].map(BodyId);
        let mut classes = ClassHierarchy::default();
        classes.set(a, vec![b]);
        classes.set(b, vec![a]);
        assert!(classes.order(a).len() <= MAX_ORDER);
    }
}
