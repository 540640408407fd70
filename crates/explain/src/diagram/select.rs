//! Which uses are drawn: enough to connect everything, not so many that nobody can follow them.

use crate::structure::PartUse;

/// A line between two boxes, for uses in one direction or in both.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DrawnPair {
    /// The side that uses more.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Index of the evidence for the other direction, if that is drawn.
    pub(super) back: Option<usize>,
    pub(super) count: u32,
    pub(super) weight: f64,
    /// Indexes of evidence for the direction from `from` to `to`.
    pub(super) evidence: Vec<usize>,
}

/// Lines per box, in percent.
const LINES_PER_BOX: usize = 150;
/// The weaker direction is drawn if it has at least this share of the stronger one, in percent.
const BOTH_SHARE: f64 = 60.0;

/// Returns the lines to draw, and how many pairs are left out.
pub(super) fn select(uses: &[PartUse], boxes: usize) -> (Vec<DrawnPair>, usize) {
    let mut pairs = pairs(uses);
    pairs.sort_by(|left, right| {
        right.weight.total_cmp(&left.weight).then((left.from, left.to).cmp(&(right.from, right.to)))
    });
    let budget = (boxes * LINES_PER_BOX / 100).max(boxes.saturating_sub(1)).max(1);
    let mut degree = vec![0_usize; boxes];
    let mut kept = vec![false; pairs.len()];
    // First what connects a box at all, strongest lines first; then the strongest of the rest.
    for (at, pair) in pairs.iter().enumerate() {
        if degree[pair.from] == 0 || degree[pair.to] == 0 {
            kept[at] = true;
            degree[pair.from] += 1;
            degree[pair.to] += 1;
        }
    }
    let mut drawn = kept.iter().filter(|kept| **kept).count();
    for (at, pair) in pairs.iter().enumerate() {
        if drawn >= budget {
            break;
        }
        if !kept[at] && !implied(&pairs, &kept, pair) {
            kept[at] = true;
            drawn += 1;
        }
    }
    let hidden = pairs.len() - drawn;
    let mut chosen: Vec<DrawnPair> =
        pairs.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(pair, _)| pair).collect();
    chosen.sort_by_key(|pair| (pair.from, pair.to));
    (chosen, hidden)
}

/// True if two stronger lines already lead the same way.
fn implied(pairs: &[DrawnPair], kept: &[bool], pair: &DrawnPair) -> bool {
    let leads = |from: usize, to: usize| {
        pairs.iter().zip(kept).any(|(other, kept)| {
            *kept && other.from == from && other.to == to && other.weight > 2.0 * pair.weight
        })
    };
    let middles = pairs
        .iter()
        .zip(kept)
        .filter(|(other, kept)| **kept && other.from == pair.from)
        .map(|(other, _)| other.to);
    middles.into_iter().any(|middle| middle != pair.to && leads(pair.from, middle) && leads(middle, pair.to))
}

fn pairs(uses: &[PartUse]) -> Vec<DrawnPair> {
    let mut found: Vec<DrawnPair> = Vec::new();
    for one in uses {
        let back = uses.iter().find(|other| other.from == one.to && other.to == one.from);
        let stronger = back.is_none_or(|back| (one.weight, one.to) > (back.weight, back.to));
        if !stronger {
            continue;
        }
        let drawn_back = back.filter(|back| back.weight * 100.0 >= one.weight * BOTH_SHARE);
        found.push(DrawnPair {
            from: one.from,
            to: one.to,
            back: drawn_back.and_then(|back| back.evidence.first().copied()),
            count: one.count + back.map_or(0, |back| back.count),
            weight: one.weight + back.map_or(0.0, |back| back.weight),
            evidence: one.evidence.clone(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(from: usize, to: usize, weight: f64) -> PartUse {
        PartUse { from, to, count: 1, weight, evidence: vec![0] }
    }

    #[test]
    fn every_connected_box_keeps_a_line_and_weak_lines_go() {
        let mut uses = Vec::new();
        for from in 0..8 {
            for to in 0..8 {
                if from < to {
                    uses.push(one(from, to, 1.0 + (from * 8 + to) as f64));
                }
            }
        }
        let (pairs, hidden) = select(&uses, 8);
        assert!(pairs.len() <= 12, "{}", pairs.len());
        assert_eq!(pairs.len() + hidden, 28);
        for part in 0..8 {
            assert!(pairs.iter().any(|pair| pair.from == part || pair.to == part));
        }
    }

    #[test]
    fn mutual_use_is_one_line() {
        let (pairs, hidden) = select(&[one(0, 1, 2.0), one(1, 0, 1.5)], 2);
        assert_eq!((pairs.len(), hidden, pairs[0].back, pairs[0].from), (1, 0, Some(0), 0));
        let (pairs, _) = select(&[one(0, 1, 20.0), one(1, 0, 1.0)], 2);
        assert_eq!(pairs[0].back, None);
    }
}
