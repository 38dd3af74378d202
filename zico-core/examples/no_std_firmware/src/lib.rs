//! zico where there is no std: two jobs on a board with one engine and a mebibyte of memory.
//!
//! Nothing here or below needs std: the crate links with core, alloc and zico's core alone.
//! `main.rs` makes a program of it, with an allocator and a panic handler of its own (`bare.rs`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod board;

pub use board::{Board, BoardError};

use alloc::vec::Vec;

use zico_core::{
    AllocError, Begin, BeginError, Block, Bytes, FreeError, Job, JoinError, Lifetime, NotRunning,
    Pool, PoolConfig, PoolError, Request,
};

/// What two jobs came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// Iterations that have ended.
    pub iterations: u32,
    /// The sum of what each job held at most.
    pub sum_of_peaks: Bytes,
    /// What both together could hold.
    pub budget: Bytes,
}

/// Where it went wrong.
#[derive(Debug)]
pub enum Trouble {
    /// No pool.
    Pool(PoolError<BoardError>),
    /// A job could not join.
    Join(JoinError<BoardError>),
    /// An iteration could not start.
    Begin(BeginError),
    /// No memory.
    Alloc(AllocError<BoardError>),
    /// Not freed.
    Free(FreeError),
    /// Not ended.
    End(NotRunning),
    /// The board refused.
    Board(BoardError),
    /// Nothing goes on any more.
    Stuck,
    /// The jobs would have fitted side by side.
    NothingShared(Report),
}

/// What each job does over and over: takes buffers, has the engine work on them, gives them back.
struct Worker {
    job: Job<Board>,
    stream: usize,
    buffers: Vec<Block>,
    state: State,
    iterations: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Up,
    Down,
}

const ITERATIONS: u32 = 10;
const BUFFERS: usize = 5;

/// Runs two jobs to their end, as a main loop does it: each is asked in turn for its next step, and
/// the board moves on when neither can do one.
///
/// # Errors
/// Any that zico or the board has.
pub fn run() -> Result<Report, Trouble> {
    let board = Board::new(Bytes::mib(1));
    let config = PoolConfig::new(Bytes::kib(512)).region_size(Bytes::kib(16));
    let pool = Pool::new(board, config).map_err(Trouble::Pool)?;
    let mut workers = Vec::new();
    for (stream, name) in [(0, "camera"), (1, "radio")] {
        let job = pool.join(name, stream).map_err(Trouble::Join)?;
        let (buffers, state) = (Vec::new(), State::Idle);
        workers.push(Worker { job, stream, buffers, state, iterations: 0 });
    }
    let done = |worker: &Worker| worker.iterations == ITERATIONS;
    while !workers.iter().all(done) {
        let mut moved = false;
        for worker in workers.iter_mut().filter(|worker| !done(worker)) {
            moved |= worker.step(pool.device())?;
        }
        if !moved {
            // Both wait for the board.
            if !pool.device().tick() {
                return Err(Trouble::Stuck);
            }
            pool.poll().map_err(Trouble::Board)?;
        }
    }
    let peaks = workers.iter().map(|worker| worker.job.held().peak);
    let sum_of_peaks = peaks.fold(Bytes::ZERO, Bytes::saturating_add);
    let iterations = workers.iter().map(|worker| worker.iterations).sum();
    let report = Report { iterations, sum_of_peaks, budget: pool.budget() };
    if sum_of_peaks > report.budget { Ok(report) } else { Err(Trouble::NothingShared(report)) }
}

impl Worker {
    /// One step, if one can be done now.
    fn step(&mut self, board: &Board) -> Result<bool, Trouble> {
        match self.state {
            State::Idle => match self.job.begin(None).map_err(Trouble::Begin)? {
                Begin::Started => self.state = State::Up,
                Begin::Wait(_) => return Ok(false),
            },
            State::Up if self.buffers.len() == BUFFERS => self.state = State::Down,
            State::Up => {
                let request = Request::new(Bytes::kib(80), Lifetime::Iteration);
                match self.job.alloc(request) {
                    Ok(block) => self.buffers.push(block),
                    Err(AllocError::Busy(_)) => return Ok(false),
                    Err(error) => return Err(Trouble::Alloc(error)),
                }
                board.work(self.stream).map_err(Trouble::Board)?;
            }
            State::Down => match self.buffers.pop() {
                Some(block) => {
                    board.work(self.stream).map_err(Trouble::Board)?;
                    self.job.free(block).map_err(Trouble::Free)?;
                }
                None => {
                    self.job.end().map_err(Trouble::End)?;
                    self.state = State::Idle;
                    self.iterations += 1;
                }
            },
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_share_the_board() {
        let report = run().unwrap();
        assert_eq!(report.iterations, 2 * ITERATIONS);
    }
}
