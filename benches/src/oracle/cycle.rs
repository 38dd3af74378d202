//! The cycle of a graph that gains most for what it costs (Howard's policy iteration).

use std::collections::VecDeque;

/// One thing that a schedule may do next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) to: u32,
    /// Work done.
    pub(super) gain: f64,
    /// Time taken.
    pub(super) cost: f64,
    /// A bit for each job of which an iteration ends.
    pub(super) ended: u8,
}

/// What can be done in each state. States are numbers; every one has at least one way out, and each
/// can reach the first.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Where each state's edges begin.
    first: Vec<usize>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Adds what can be done in the next state.
    pub(super) fn push(&mut self, edges: impl IntoIterator<Item = Edge>) {
        self.first.push(self.edges.len());
        self.edges.extend(edges);
    }

    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    pub(super) fn edges(&self, state: usize) -> &[Edge] {
        &self.edges[self.range(state)]
    }

    fn range(&self, state: usize) -> std::ops::Range<usize> {
        self.first[state]..self.first.get(state + 1).copied().unwrap_or(self.edges.len())
    }

    /// The largest gain over cost of any cycle.
    pub(super) fn best_ratio(&self) -> f64 {
        self.solve().0
    }

    /// The largest gain over cost of any cycle, and how often an iteration of each job ends in it,
    /// over what it costs.
    pub(super) fn best_mix<const JOBS: usize>(&self) -> (f64, [f64; JOBS]) {
        let into = self.reversed();
        let mut policy: Vec<usize> = (0..self.len()).map(|state| self.first[state]).collect();
        let (mut best, mut mix) = (f64::NEG_INFINITY, [0.0; JOBS]);
        loop {
            let (ratio, root) = self.best_cycle(&policy);
            if ratio > best {
                (best, mix) = (ratio, self.mix(&policy, root));
            }
            let worth = self.lead_to(root, best, &mut policy, &into);
            if !self.improve(best, &worth, &mut policy) {
                return (best, mix);
            }
        }
    }

    /// How often an iteration of each job ends in the cycle from `root`, over what that costs.
    fn mix<const JOBS: usize>(&self, policy: &[usize], root: usize) -> [f64; JOBS] {
        let (mut ended, mut cost, mut state) = ([0.0; JOBS], 0.0, root);
        loop {
            let edge = self.edges[policy[state]];
            for (job, ended) in ended.iter_mut().enumerate() {
                *ended += f64::from(edge.ended >> job & 1);
            }
            cost += edge.cost;
            state = edge.to as usize;
            if state == root {
                return ended.map(|ended| ended / cost);
            }
        }
    }

    /// The largest gain over cost of any cycle, and what each state is worth: what the best way on
    /// from there gains beyond that ratio times what it costs, beside the other states.
    pub(super) fn solve(&self) -> (f64, Vec<f64>) {
        let into = self.reversed();
        let mut policy: Vec<usize> = (0..self.len()).map(|state| self.first[state]).collect();
        let mut best = 0.0_f64;
        loop {
            let (ratio, root) = self.best_cycle(&policy);
            best = best.max(ratio);
            let worth = self.lead_to(root, best, &mut policy, &into);
            if !self.improve(best, &worth, &mut policy) {
                return (best, worth);
            }
        }
    }

    /// The states that lead to each state, with the edge by which they do.
    fn reversed(&self) -> Into {
        let mut first = vec![0; self.len() + 1];
        self.edges.iter().for_each(|edge| first[edge.to as usize + 1] += 1);
        (0..self.len()).for_each(|state| first[state + 1] += first[state]);
        let (mut next, mut edges) = (first.clone(), vec![(0, 0); self.edges.len()]);
        for state in 0..self.len() {
            for edge in self.range(state) {
                let slot = &mut next[self.edges[edge].to as usize];
                edges[*slot] = (state, edge);
                *slot += 1;
            }
        }
        Into { first, edges }
    }

    /// The best cycle among those that the policy runs into, by its ratio and one of its states.
    fn best_cycle(&self, policy: &[usize]) -> (f64, usize) {
        let mut seen = vec![usize::MAX; self.len()];
        let mut best = (f64::NEG_INFINITY, 0);
        for start in 0..self.len() {
            let mut state = start;
            while seen[state] == usize::MAX {
                seen[state] = start;
                state = self.edges[policy[state]].to as usize;
            }
            if seen[state] != start {
                continue;
            }
            let (root, mut gain, mut cost) = (state, 0.0, 0.0);
            loop {
                let edge = self.edges[policy[state]];
                (gain, cost) = (gain + edge.gain, cost + edge.cost);
                state = edge.to as usize;
                if state == root {
                    break;
                }
            }
            if gain / cost > best.0 {
                best = (gain / cost, root);
            }
        }
        best
    }

    /// Makes every state lead to `root`, by its policy if that does, else by a shortest way.
    /// Returns what each way there is worth: what it gains beyond `ratio` times what it costs.
    fn lead_to(&self, root: usize, ratio: f64, policy: &mut [usize], into: &Into) -> Vec<f64> {
        let mut worth = vec![f64::NAN; self.len()];
        worth[root] = 0.0;
        let mut reached = vec![root];
        let mut next = 0;
        while let Some(&state) = reached.get(next) {
            next += 1;
            for &(from, edge) in into.edges(state) {
                if policy[from] == edge && worth[from].is_nan() {
                    worth[from] = self.worth(edge, ratio, &worth);
                    reached.push(from);
                }
            }
        }
        let mut queue = VecDeque::from(reached);
        while let Some(state) = queue.pop_front() {
            for &(from, edge) in into.edges(state) {
                if worth[from].is_nan() {
                    policy[from] = edge;
                    worth[from] = self.worth(edge, ratio, &worth);
                    queue.push_back(from);
                }
            }
        }
        worth
    }

    fn worth(&self, edge: usize, ratio: f64, worth: &[f64]) -> f64 {
        let edge = self.edges[edge];
        edge.gain - ratio * edge.cost + worth[edge.to as usize]
    }

    /// Takes a better edge wherever there is one. Whether there was any.
    fn improve(&self, ratio: f64, worth: &[f64], policy: &mut [usize]) -> bool {
        let scale = self.edges.iter().map(|edge| edge.cost).fold(0.0, f64::max);
        let mut any = false;
        for state in 0..self.len() {
            let mut best = worth[state] + 1e-9 * scale;
            for edge in self.range(state) {
                let value = self.worth(edge, ratio, worth);
                if value > best {
                    (best, policy[state], any) = (value, edge, true);
                }
            }
        }
        any
    }
}

/// For each state, who leads to it.
struct Into {
    first: Vec<usize>,
    edges: Vec<(usize, usize)>,
}

impl Into {
    fn edges(&self, state: usize) -> &[(usize, usize)] {
        &self.edges[self.first[state]..self.first[state + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_cycle_is_found_where_the_best_edge_misleads() {
        let edge = |to, gain, cost| Edge { to, gain, cost, ended: 0 };
        let mut graph = Graph::default();
        // 0 -> 1 gains most at once, but 1 leads back at a loss; 0 -> 2 -> 0 is best.
        graph.push([edge(1, 9.0, 1.0), edge(2, 2.0, 1.0), edge(0, 2.9, 1.0)]);
        graph.push([edge(0, 0.0, 9.0)]);
        graph.push([edge(0, 6.0, 1.0), edge(2, 3.5, 1.0)]);
        assert_eq!(graph.best_ratio(), 4.0);
    }

    /// Every ratio of a random graph, against a search for a cycle that gains more than a given
    /// one.
    #[test]
    fn agrees_with_bisection() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..300 {
            let n = random.u32(1..9);
            let mut graph = Graph::default();
            for i in 0..n {
                let ring = std::iter::once((i + 1) % n);
                let more = (0..random.u32(0..4)).map(|_| random.u32(0..n));
                let to: Vec<u32> = ring.chain(more).collect();
                graph.push(to.into_iter().map(|to| Edge {
                    to,
                    gain: random.u32(0..10).into(),
                    cost: random.u32(1..10).into(),
                    ended: 0,
                }));
            }
            assert!((graph.best_ratio() - graph.by_bisection(10.0)).abs() < 1e-6);
        }
    }

    impl Graph {
        /// The best ratio, which is less than `high`.
        pub(in super::super) fn by_bisection(&self, mut high: f64) -> f64 {
            let mut low = 0.0;
            for _ in 0..40 {
                let middle = 0.5 * (low + high);
                if self.beats(middle) { low = middle } else { high = middle }
            }
            low
        }

        /// Bellman and Ford: whether some cycle gains more than `ratio` times its cost.
        fn beats(&self, ratio: f64) -> bool {
            let mut worth = vec![0.0_f64; self.len()];
            for _ in 0..=self.len() {
                let mut any = false;
                for state in 0..self.len() {
                    for edge in self.edges(state) {
                        let value = worth[state] + edge.gain - ratio * edge.cost;
                        if value > worth[edge.to as usize] + 1e-12 {
                            (worth[edge.to as usize], any) = (value, true);
                        }
                    }
                }
                if !any {
                    return false;
                }
            }
            true
        }
    }
}
