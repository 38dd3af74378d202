//! The house as a picture.

use std::fmt::Write;

use crate::house::House;

const WIDTH: usize = 960;
/// Where the boxes begin, behind the names of the floors, and where they end.
const LEFT: usize = 130;
const RIGHT: usize = WIDTH - 30;
const BOX: usize = 30;
const GAP: usize = 10;
const COLOURS: [&str; 6] = ["#f2cfc9", "#f6e2c4", "#e7ecc9", "#c2dfe3", "#d5dbe5", "#e4e4e4"];

/// One band for each floor, the highest first, with a box for each module.
pub(crate) fn draw(house: &House) -> String {
    let mut bands = String::new();
    let mut y = 20;
    for (number, (name, modules, does)) in house.floors.iter().enumerate() {
        let mut boxes = String::new();
        let (mut x, mut row) = (LEFT, y + 30);
        for module in modules {
            let width = 9 * module.len() + 24;
            if x + width > RIGHT {
                (x, row) = (LEFT, row + BOX + GAP);
            }
            let (middle, base) = (x + width / 2, row + 20);
            let _ = writeln!(
                boxes,
                "<rect x=\"{x}\" y=\"{row}\" width=\"{width}\" height=\"{BOX}\" rx=\"5\" fill=\"#fff\" \
                 stroke=\"#5c6b73\"/>\n<text x=\"{middle}\" y=\"{base}\" text-anchor=\"middle\" \
                 font-family=\"monospace\">{module}</text>"
            );
            x += width + GAP;
        }
        let (height, colour) = (row + BOX + 12 - y, COLOURS[number % COLOURS.len()]);
        let (base, does) = (y + 20, does.replace('&', "&amp;").replace('<', "&lt;"));
        let _ = writeln!(
            bands,
            "<rect x=\"10\" y=\"{y}\" width=\"{}\" height=\"{height}\" rx=\"8\" fill=\"{colour}\"/>\n\
             <text x=\"24\" y=\"{base}\" font-weight=\"600\">{name}</text>\n\
             <text x=\"{LEFT}\" y=\"{base}\" fill=\"#444\" font-size=\"12\">{does}</text>\n{boxes}",
            WIDTH - 20
        );
        y += height + 8;
    }
    let arrows = house.stairs.iter().map(|(who, other)| format!("{who} → {other}"));
    let stairs = arrows.collect::<Vec<_>>().join(", ");
    let (first, second, height) = (y + 16, y + 38, y + 56);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"14\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n{bands}\
         <text x=\"24\" y=\"{first}\">Who is on a floor uses what is on it and below it, and up the stairs:\
         </text>\n<text x=\"24\" y=\"{second}\" font-size=\"12\">{stairs}</text>\n</svg>\n"
    )
}
