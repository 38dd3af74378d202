//! Two threads, each with a job of its own in one pool, beside one of them alone.
//!
//! Threads that are not put on a core for themselves show nothing, so what is compared are the
//! least of many short turns, alone and together in turns.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use zico_bench::speed::{self, Outcome, Workload, Zico, page, pool};
use zico_bench::table::table;

use crate::measure::pairs;
use crate::player::{Player, Plays};

const ROUNDS: usize = 50;
const TURNS: usize = 20;

pub(crate) fn run() -> Outcome<()> {
    let mut figures = table(&["ns a pair, loop included: least / median", "alone", "two at once"]);
    for workload in [speed::one_size(2_048), speed::last_in_first_out(500)] {
        let pool = pool(page(&workload), 3 * workload.space)?;
        let jobs = [Zico::keeping_in(&pool, &workload)?, Zico::keeping_in(&pool, &workload)?];
        figures.add_row(row(&workload, jobs, &workload.name)?);
    }
    let workload = speed::repeating("resnet50")?;
    let pool = pool(2 << 20, 3 * workload.space)?;
    let jobs = [Zico::sharing_in(&pool, &workload)?, Zico::sharing_in(&pool, &workload)?];
    figures.add_row(row(&workload, jobs, "resnet50, giving back to one pool")?);
    println!("Two threads on two jobs:\n\n{figures}\n");
    Ok(())
}

fn row(workload: &Workload, jobs: [Zico; 2], name: &str) -> Outcome<[String; 3]> {
    let mut players = Vec::new();
    for job in jobs {
        let mut player = Player::new(job, workload.places).ok_or("no room at all")?;
        if !player.play(&workload.setup) {
            return Err("no room for the setup".into());
        }
        players.push(player);
    }
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.append(&mut turns(workload, &mut players[..1]));
        together.append(&mut turns(workload, &mut players));
    }
    let figure = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        format!("{:.1} / {:.1}", times[0], times[times.len() / 2])
    };
    Ok([name.to_owned(), figure(alone), figure(together)])
}

/// The time of some turns: each player is a thread, and all begin together.
fn turns(workload: &Workload, players: &mut [Player<Zico>]) -> Vec<f64> {
    let barrier = Barrier::new(players.len());
    let play = |player: &mut Player<Zico>| {
        barrier.wait();
        let turn = |number| {
            let ops = workload.turn(number);
            let start = Instant::now();
            player.play(ops).then(|| start.elapsed().as_nanos() as f64 / pairs(ops))
        };
        (0..TURNS).map_while(turn).collect::<Vec<f64>>()
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            players.iter_mut().map(|player| scope.spawn(|| play(player))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}
