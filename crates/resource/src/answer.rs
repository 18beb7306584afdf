//! The answer that all `cv_see_KIND` functions share: a line a key, in the order of the keys.
//!
//! `MOMENT STATE…` (the moment is `-` where there is none) or `! REASON` with the reason as one encoded word. `MOMENT=KEY STATE…` says that
//! what was asked for is another name of the object with this key (encoded). `MOMENT+NUMBER STATE…`: a file has so many names (hard links).

use crate::{BadState, Observation, State, counted, decode_field};
use std::collections::BTreeMap;

/// A host's answer that is not of the form that the probe asks for.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct AnswerError(pub String);

/// Reads an answer; `S` checks that each line is a state of the object.
pub(crate) fn parse<S>(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observation, AnswerError>>
where
    S: TryFrom<State, Error = BadState>,
{
    let lines: Vec<&str> = answer.lines().collect();
    let entry = |index: usize| match lines.get(index) {
        Some(line) if lines.len() == keys.len() => one::<S>(line),
        None if lines.is_empty() => Err(AnswerError("the host did not answer".to_owned())),
        // Answers without names cannot be assigned to their questions.
        _ => {
            let text = format!(
                "the host answered {} to {}",
                counted(lines.len(), "line"),
                counted(keys.len(), "question")
            );
            Err(AnswerError(text))
        }
    };
    keys.iter().enumerate().map(|(index, key)| ((*key).to_owned(), entry(index))).collect()
}

fn one<S: TryFrom<State, Error = BadState>>(line: &str) -> Result<Observation, AnswerError> {
    let strange = || AnswerError(format!("the host's answer is not understood: {}", clip(line)));
    let (moment, rest) = line.split_once(' ').ok_or_else(strange)?;
    if moment == "!" {
        return Err(AnswerError(decode_field(rest).ok_or_else(strange)?));
    }
    let (moment, real) = match moment.split_once('=') {
        Some((moment, real)) => (moment, Some(decode_field(real).ok_or_else(strange)?)),
        None => (moment, None),
    };
    let (moment, names) = match moment.split_once('+') {
        Some((moment, names)) => (moment, Some(names.parse().map_err(|_| strange())?)),
        None => (moment, None),
    };
    let moment = match moment {
        "-" => None,
        seconds => Some(seconds.parse().map_err(|_| strange())?),
    };
    let state = State::from_line(rest);
    let typed = S::try_from(state.clone());
    typed.map_err(|e| AnswerError(e.to_string()))?;
    Ok(Observation { real, names, ..Observation::new(state, moment) })
}

fn clip(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { '?' } else { c }).take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ValidState;

    impl TryFrom<State> for ValidState {
        type Error = BadState;
        fn try_from(state: State) -> Result<Self, BadState> {
            if state.line().starts_with("bogus") { Err(BadState(state.line().to_owned())) } else { Ok(Self) }
        }
    }

    #[test]
    fn answers_are_matched_by_order_and_each_fault_stays_with_its_key() {
        let observed =
            parse::<ValidState>(&["/a", "/b", "/c"], "17 dir 755 root root\n! \\0156\\0157\n- bogus 1 2\n");
        assert_eq!(observed["/a"].as_ref().unwrap().moment, Some(17));
        assert_eq!(observed["/b"], Err(AnswerError("no".to_owned())));
        assert!(observed["/c"].as_ref().unwrap_err().0.contains("bogus"));
        let named = parse::<ValidState>(&["/l/a", "/l/b"], "17=/r/a=b absent\n-=\\0057\\0040 absent\n");
        let observed = |key: &str| named[key].clone().map(|observed| (observed.moment, observed.real));
        assert_eq!(observed("/l/a"), Ok((Some(17), Some("/r/a=b".to_owned()))));
        assert_eq!(observed("/l/b"), Ok((None, Some("/ ".to_owned()))));
        let linked = parse::<ValidState>(&["/a", "/b"], "17+3=/r/a absent\n17+x absent\n");
        let observed = linked["/a"].clone().map(|observed| (observed.moment, observed.real, observed.names));
        assert_eq!(observed, Ok((Some(17), Some("/r/a".to_owned()), Some(3))));
        assert!(linked["/b"].is_err());
    }

    #[test]
    fn an_answer_with_too_many_or_too_few_lines_answers_nothing() {
        for (keys, answer) in [(&["/a"][..], "- absent\n- absent\n"), (&["/a", "/b"], "- absent\n")] {
            assert!(parse::<ValidState>(keys, answer).values().all(Result::is_err), "{answer:?}");
        }
        assert_eq!(
            parse::<ValidState>(&["/a"], "")["/a"],
            Err(AnswerError("the host did not answer".to_owned()))
        );
    }
}
