//! Capuchin (Peng et al., ASPLOS 2020): swap what the compute between two uses hides, and then what
//! has most bytes per second of recomputation, or swap it after all where that is cheaper.

use alloc::vec::Vec;

use crate::relief::search::{Search, Taste};
use crate::relief::swap::{self, Gap, Move};
use crate::relief::{Graph, Link, Relief, Step, sequence};

/// The schedule that it chooses for a limit.
pub(in crate::relief) fn steps(graph: &Graph, link: &Link, limit: u64) -> Vec<Step> {
    let times = swap::times(graph);
    let mut live = graph.live();
    let free = |gap: &Gap| {
        let moves = link.nanos_out(gap.bytes).saturating_add(link.nanos_back(gap.bytes));
        i128::from(times[gap.before as usize])
            - i128::from(times[gap.from as usize])
            - i128::from(moves)
    };
    let over = |live: &[u64], gap: &Gap| {
        live[gap.from as usize..gap.before as usize].iter().any(|&bytes| bytes > limit)
    };
    let mut open = swap::gaps(graph, 1);
    open.retain(|gap| over(&live, gap));
    open.sort_by_key(|gap| (core::cmp::Reverse(free(gap)), *gap));
    let (hidden, mut rest): (Vec<Gap>, Vec<Gap>) = open.into_iter().partition(|gap| free(gap) >= 0);
    let mut chosen: Vec<Gap> = Vec::new();
    let mut moves: Vec<Move> = Vec::new();
    for gap in hidden {
        if !over(&live, &gap) {
            continue;
        }
        // Transfers are exclusive on the link: what does not fit beside those before it is for
        // later.
        chosen.push(gap);
        let placed: Option<Vec<Move>> =
            swap::place(graph, link, &chosen, &times).into_iter().collect();
        if let Some(placed) = placed {
            moves = placed;
            for bytes in &mut live[gap.from as usize..gap.before as usize] {
                *bytes = bytes.saturating_sub(gap.bytes);
            }
        } else {
            chosen.pop();
            rest.push(gap);
        }
    }
    finish(graph, limit, moves, rest, &free)
}

fn finish(
    graph: &Graph,
    limit: u64,
    mut moves: Vec<Move>,
    rest: Vec<Gap>,
    free: &dyn Fn(&Gap) -> i128,
) -> Vec<Step> {
    let cost = |gap: &Gap| {
        let writer = graph.writers[gap.storage as usize].first();
        writer.map_or(0, |&writer| graph.operations[writer as usize].nanos)
    };
    // Where the exposed part of the transfers is less than making it again, or that cannot be.
    let again = |gap: &Gap| {
        let writer = graph.writers[gap.storage as usize].first();
        writer.is_some_and(|&writer| graph.operations[writer as usize].repeatable)
    };
    let (exposed, mut rest): (Vec<Gap>, Vec<Gap>) = rest
        .into_iter()
        .partition(|gap| !again(gap) || free(gap) < 0 && -free(gap) < i128::from(cost(gap)));
    rest.sort_by(|one, other| {
        let msps = |gap: &Gap| gap.bytes as f64 / (1 + cost(gap)) as f64;
        msps(other).total_cmp(&msps(one)).then_with(|| one.cmp(other))
    });
    let away: Vec<u32> = moves.iter().map(|one| one.storage).collect();
    let late = |gaps: &[Gap]| -> Vec<Move> {
        gaps.iter().filter(|gap| !away.contains(&gap.storage)).map(Gap::late).collect()
    };
    moves.extend(late(&exposed));
    let (steps, fits) = with_recomputation(graph, limit, moves.clone(), &rest);
    if fits {
        return steps;
    }
    // What is made again needs what it reads, which may not be there either: then all is swapped.
    moves.extend(late(&rest));
    with_recomputation(graph, limit, moves, &[]).0
}

/// The schedule with these moves, where of `rest` one after the other is made again until all fits;
/// and whether it does.
fn with_recomputation(
    graph: &Graph,
    limit: u64,
    moves: Vec<Move>,
    rest: &[Gap],
) -> (Vec<Step>, bool) {
    let relief = Relief::with_moves(graph, moves);
    let mut search = Search::new(&relief.problem, limit);
    search.look();
    for gap in rest {
        if search.timeline.excess == 0 {
            break;
        }
        if let Some((stage, unit)) = relief.problem.place(gap)
            && search.may_run(stage, unit)
        {
            search.make(stage, unit, 0, Taste::Greedy);
        }
    }
    let steps = sequence::with_drops(graph, &sequence::steps(&search.timeline, &relief.moves));
    (steps, search.timeline.excess == 0)
}
