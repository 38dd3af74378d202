//! What a schema says of arguments: `aten::add_.Tensor(Tensor(a!) self, Tensor other) -> ...`.

/// Of one argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Argument {
    /// It is changed.
    pub(super) changed: bool,
    /// It is of no account: running statistics.
    pub(super) ignored: bool,
}

/// The arguments in their order; none where there is no schema.
pub(super) fn arguments(schema: &str) -> Vec<Argument> {
    let Some(open) = schema.find('(') else { return Vec::new() };
    let mut depth = 0_u32;
    let mut all = Vec::new();
    let mut start = open + 1;
    for (at, byte) in schema.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = depth == 0 || (depth == 1 && byte == b',');
        if ends && at > open {
            // Only ASCII ends an argument, so this is a boundary.
            let text = schema.get(start..at).unwrap_or_default().trim();
            start = at + 1;
            if !text.is_empty() && text != "*" {
                let name = text.split('=').next().and_then(|text| text.split_whitespace().last());
                let ignored = name.is_some_and(|name| name.starts_with("running_"));
                all.push(Argument { changed: text.contains('!'), ignored });
            }
        }
        if depth == 0 {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes() {
        let changed = |schema| {
            arguments(schema).into_iter().map(|one| (one.changed, one.ignored)).collect::<Vec<_>>()
        };
        let add =
            "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)";
        assert_eq!(changed(add), [(true, false), (false, false), (false, false)]);
        let foreach = "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other) -> ()";
        assert_eq!(changed(foreach), [(true, false), (false, false)]);
        let pad =
            "aten::pad(Tensor self, SymInt[2] pad=[0, 0], Tensor? running_mean=None) -> Tensor";
        assert_eq!(changed(pad), [(false, false), (false, false), (false, true)]);
        for odd in ["", "x", "x(", "x(a,", "é(é!, é) é", ")(", "x((((", "x(]])"] {
            let _ = arguments(odd);
        }
        assert!(arguments("").is_empty());
    }
}
