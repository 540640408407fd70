//! Personalised PageRank over a directed graph.

/// Share of rank that follows the edges; the rest returns to the preferred nodes. The value of the original paper.
const DAMPING: f64 = 0.85;
/// Rounds: the error shrinks by the damping each time, below a thousandth after 43.
const ROUNDS: usize = 50;

/// Returns the rank of each node. `edges` are (from, to, weight); rank flows from `from` to `to`. `preference` is where
/// walks begin; if it is all zero, every node is preferred alike.
pub(crate) fn personalised_pagerank(edges: &[(usize, usize, f64)], preference: &[f64]) -> Vec<f64> {
    let nodes = preference.len();
    if nodes == 0 {
        return Vec::new();
    }
    let total: f64 = preference.iter().sum();
    let start: Vec<f64> =
        preference.iter().map(|value| if total > 0.0 { value / total } else { 1.0 / nodes as f64 }).collect();
    let mut outgoing = vec![0.0; nodes];
    for (from, _, weight) in edges {
        outgoing[*from] += weight;
    }
    let mut rank = start.clone();
    for _ in 0..ROUNDS {
        let stuck: f64 = (0..nodes).filter(|node| outgoing[*node] <= 0.0).map(|node| rank[node]).sum();
        let mut next: Vec<f64> =
            start.iter().map(|share| share * (1.0 - DAMPING + DAMPING * stuck)).collect();
        for (from, to, weight) in edges {
            if outgoing[*from] > 0.0 {
                next[*to] += DAMPING * rank[*from] * weight / outgoing[*from];
            }
        }
        rank = next;
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_nodes_rank_above_others_and_ranks_sum_to_one() {
        let edges = [(0, 2, 1.0), (1, 2, 1.0), (2, 3, 1.0)];
        let rank = personalised_pagerank(&edges, &[1.0; 4]);
        assert!(rank[2] > rank[0] && rank[3] > rank[0]);
        assert!((rank.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let preferred = personalised_pagerank(&edges, &[1.0, 0.0, 0.0, 0.0]);
        assert_eq!(preferred[1], 0.0);
    }
}
