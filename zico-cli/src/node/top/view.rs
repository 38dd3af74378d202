//! The picture.

use std::path::Path;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{LineGauge, Paragraph, Row, Table};
use zico_core::{Activity, Bytes, JobSnapshot};

use super::history::History;
use crate::node::books::{Books, sentence, word};
use crate::table::sparkline;
use crate::terminal::line;

/// The least and the most columns of a wave.
const WAVE: (u16, u16) = (12, 60);
/// The columns of a job's figures: what it does, holds, its peak, its rate.
const FIGURES: [u16; 4] = [8, 11, 11, 8];
/// A name has at most so many columns.
const NAME: u16 = 24;

/// All that is to be seen.
pub(super) struct View<'w> {
    pub(super) socket: &'w Path,
    /// Whether the broker answers.
    pub(super) is_there: bool,
    pub(super) books: &'w Books,
    pub(super) history: &'w History,
}

impl View<'_> {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        // Who waits has at most a third of what is left, and a line for the heading.
        let all = frame.area();
        let waits = self.books.waits.len();
        let most = usize::from(all.height / 3);
        let lines = if waits == 0 { 0 } else { waits.min(most) + 1 };
        let [head, gauge, counts, jobs, waits, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(2),
            Constraint::Min(1),
            Constraint::Length(u16::try_from(lines).unwrap_or(0)),
            Constraint::Length(1),
        ])
        .areas(all);
        frame.render_widget(self.head(), head);
        frame.render_widget(self.gauge(), gauge);
        frame.render_widget(self.counts(), counts);
        self.jobs(frame, jobs);
        self.waits(frame, waits);
        frame.render_widget(self.foot(), foot);
    }

    fn head(&self) -> Line<'_> {
        let Books { device, region, .. } = self.books;
        let place = self.socket.display().to_string();
        Line::from(vec![
            Span::styled(line(device).into_owned(), Modifier::BOLD),
            Span::raw(format!(" at {}, in regions of {region}", line(&place))),
        ])
    }

    /// What is held, of the budget.
    fn gauge(&self) -> LineGauge<'_> {
        let Books { pool, budget, .. } = self.books;
        let ratio = pool.held.value() as f64 / budget.target.value().max(1) as f64;
        let colour = if ratio > 1.0 { Color::Red } else { Color::Cyan };
        LineGauge::default()
            .ratio(ratio.clamp(0.0, 1.0))
            .label(format!("{} of {} held", pool.held, budget.target))
            .filled_style(Style::new().fg(colour))
            .filled_symbol("\u{2588}")
            .unfilled_symbol("\u{2591}")
    }

    fn counts(&self) -> Line<'_> {
        let Books { pool, budget, .. } = self.books;
        let count = |does| pool.jobs.iter().filter(|job| job.activity == does).count();
        let mut parts = vec![match pool.jobs.len() {
            1 => "1 job".to_owned(),
            jobs => format!("{jobs} jobs"),
        }];
        use Activity::{Left, Running, Stalled, Suspended, Waiting};
        for does in [Running, Waiting, Stalled, Suspended, Left] {
            if count(does) > 0 {
                parts.push(format!("{} {}", count(does), word(does)));
            }
        }
        if !pool.free.is_zero() {
            parts.push(format!("{} nobody's", pool.free));
        }
        if !budget.pending.is_zero() {
            parts.push(format!("{} pending of a lower budget", budget.pending));
        }
        Line::from(parts.join(", "))
    }

    /// A row for each job, as far as there is room.
    fn jobs(&self, frame: &mut Frame<'_>, area: Rect) {
        let jobs = &self.books.pool.jobs;
        let room = usize::from(area.height.saturating_sub(1));
        let shown = if jobs.len() > room { room.saturating_sub(1) } else { jobs.len() };
        let longest = jobs.iter().map(|job| line(&job.name).chars().count()).max().unwrap_or(0);
        let name = u16::try_from(longest).unwrap_or(NAME).clamp(4, NAME);
        let figures: u16 = FIGURES.iter().map(|width| width + 1).sum();
        let wave = area.width.saturating_sub(name + figures + 1).clamp(WAVE.0, WAVE.1);
        let [does, holds, peak, rate] = FIGURES.map(Constraint::Length);
        let widths = [Constraint::Length(name), does, holds, peak, rate, Constraint::Length(wave)];
        let heading = ["job", "does", "      holds", "       peak", "    it/s", "last minute"];
        let rows = jobs.iter().take(shown).map(|job| self.row(job, name, wave));
        let heading = Row::new(heading).style(Modifier::BOLD);
        frame.render_widget(Table::new(rows, widths).header(heading), area);
        if shown < jobs.len() {
            let last = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
            let more = format!("{} more", jobs.len() - shown);
            frame.render_widget(Line::styled(more, Modifier::DIM), last.intersection(area));
        }
    }

    fn row(&self, job: &JobSnapshot, name: u16, wave: u16) -> Row<'_> {
        let right = |bytes: Bytes| format!("{:>11}", bytes.to_string());
        let rate = self.history.rate(job.id);
        let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}"));
        let width = usize::from(wave);
        let wave = sparkline(&self.history.wave(job.id, width));
        // Now is on the right, also of a job that has just come.
        let wave = format!("{wave:>width$}");
        let colour = match job.activity {
            Activity::Running => Color::Green,
            Activity::Waiting => Color::Yellow,
            Activity::Stalled => Color::Red,
            Activity::Idle | Activity::Suspended | Activity::Left => Color::Reset,
        };
        Row::new([
            Span::raw(short(&line(&job.name), name.into())),
            Span::styled(word(job.activity), colour),
            Span::raw(right(job.held.total())),
            Span::raw(right(job.held.peak)),
            Span::raw(format!("{rate:>8}")),
            Span::styled(wave, Color::Cyan),
        ])
    }

    fn waits(&self, frame: &mut Frame<'_>, area: Rect) {
        let waits = &self.books.waits;
        let room = usize::from(area.height.saturating_sub(1));
        if room == 0 {
            return;
        }
        let mut lines = vec![Line::styled("waits", Modifier::BOLD)];
        let shown = if waits.len() > room { room - 1 } else { waits.len() };
        let width = usize::from(area.width);
        let each = waits.iter().take(shown);
        lines.extend(each.map(|waiting| Line::from(short(&line(&sentence(waiting)), width))));
        if shown < waits.len() {
            lines.push(Line::styled(format!("{} more", waits.len() - shown), Modifier::DIM));
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn foot(&self) -> Line<'_> {
        if self.is_there {
            return Line::styled("q quits", Modifier::DIM);
        }
        let text = "the broker has gone; this is how it was. q quits";
        Line::styled(text, Style::new().fg(Color::Red))
    }
}

/// At most so many characters, the last a full stop if some are missing.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept = text.chars().take(most.saturating_sub(1));
    kept.chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::picture;
    use super::*;
    use crate::node::books::tests::{books, books_of, job, waiting};

    fn seen(books: &Books, is_there: bool, size: (u16, u16)) -> String {
        let mut history = History::default();
        history.add(Duration::ZERO, &books.pool);
        history.add(Duration::from_secs(30), &books.pool);
        let socket = Path::new("/run/user/1000/zico/host.sock");
        picture(&View { socket, is_there, books, history: &history }, size).unwrap()
    }

    #[test]
    fn a_picture_has_it_all_in_80_columns() {
        let mut books = books();
        books.waits.push(waiting());
        books.budget.pending = Bytes::mib(64);
        let text = seen(&books, true, (80, 24));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 24, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(lines[0], "host at /run/user/1000/zico/host.sock, in regions of 1 MiB");
        assert!(lines[1].starts_with("151 MiB of 1 GiB held \u{2588}"), "{text}");
        assert!(lines[1].ends_with('\u{2591}'), "{text}");
        let counts =
            "2 jobs, 1 running, 1 waiting, 1 MiB nobody's, 64 MiB pending of a lower budget";
        assert_eq!(lines[2], counts);
        assert_eq!(
            lines[4].split_whitespace().collect::<Vec<_>>(),
            ["job", "does", "holds", "peak", "it/s", "last", "minute"]
        );
        assert!(lines[5].starts_with("resnet50"), "{text}");
        for part in [" running ", " 100 MiB ", " 200 MiB ", " 0.00 ", "\u{2588}\u{2588}"] {
            assert!(lines[5].contains(part), "no {part:?} in\n{text}");
        }
        assert!(
            lines[6].starts_with("a \"b\"\\\\n") || lines[6].starts_with("a \"b\"\\"),
            "{text}"
        );
        assert_eq!(lines[21], "waits");
        assert_eq!(lines[22], "bert waits for 8 MiB: resnet50 (running) holds 1 MiB");
        assert_eq!(lines[23], "q quits");
        assert!(
            seen(&books, false, (80, 24))
                .ends_with("the broker has gone; this is how it was. q quits\n")
        );
    }

    #[test]
    fn what_finds_no_room_is_counted_and_no_size_is_too_small() {
        let jobs: Vec<_> = (1..=40).map(|id| job(id, &format!("job {id}"), "Idle", 1)).collect();
        let mut books = books_of(&jobs);
        books.waits = vec![waiting(); 30];
        let text = seen(&books, true, (80, 24));
        let count = |start| text.lines().filter(|line| line.starts_with(start)).count();
        let (rows, waits) = (count("job ") - 1, count("bert waits"));
        assert!(rows > 5 && waits > 5, "{text}");
        for more in [40 - rows, 30 - waits] {
            assert!(text.contains(&format!("\n{more} more\n")), "no {more} more\n{text}");
        }
        for width in [0, 1, 7, 40, 80, 300] {
            for height in [0, 1, 2, 5, 24, 100] {
                seen(&books, true, (width, height));
            }
        }
    }

    #[test]
    fn a_name_cannot_draw_outside_its_place() {
        let evil = "\u{1b}[2J\u{202e}evil\n".repeat(10);
        let text = seen(&books_of(&[job(1, &evil, "Running", 1)]), true, (80, 24));
        assert!(text.contains("\\u001b[2J") && text.contains('\u{2026}'), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    }
}
