//! Dates: `strftime`, `to_datetime`, and the function `now`.

use std::fmt;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use minijinja::value::{Kwargs, Object, ObjectRepr, from_args};
use minijinja::{Error, ErrorKind, State, Value};

use super::invalid;
use crate::frame;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("strftime", strftime);
    env.add_filter("to_datetime", to_datetime);
    env.add_function("now", now);
}

/// The time of the run: the same for the plan and for its apply.
fn moment() -> Timestamp {
    frame::note(|notes| notes.lookups.insert("moment.now".to_owned()));
    frame::current_scope().map_or(Timestamp::UNIX_EPOCH, |scope| scope.engine().moment().now)
}

fn zone(utc: bool) -> TimeZone {
    if utc { TimeZone::UTC } else { TimeZone::system() }
}

fn now(options: Kwargs) -> Result<Value, Error> {
    let utc = options.get::<Option<bool>>("utc")?.unwrap_or(false);
    let format = options.get::<Option<String>>("fmt")?.filter(|format| !format.is_empty());
    options.assert_all_used()?;
    let at = moment().to_zoned(zone(utc));
    match format {
        Some(format) => written(&at, &format).map(Value::from),
        None => Ok(Value::from_object(Date(at))),
    }
}

fn written(at: &Zoned, format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, at)
        .map_err(|error| invalid(format!("the format `{format}` cannot be written: {error}")))
}

/// `'%Y-%m-%d' | strftime(seconds, utc)`
fn strftime(
    format: String,
    second: Option<Value>,
    utc: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let second = options.get::<Option<Value>>("second")?.or(second).filter(|second| !second.is_none());
    let utc = options.get::<Option<bool>>("utc")?.or(utc).unwrap_or(false);
    options.assert_all_used()?;
    let at = match second {
        None => moment(),
        Some(second) => {
            let number = f64::try_from(second.clone())
                .or_else(|error| second.to_string().parse::<f64>().map_err(|_| error))?;
            Timestamp::from_second(number.floor() as i64)
                .map_err(|error| invalid(format!("strftime: {error}")))?
        }
    };
    written(&at.to_zoned(zone(utc)), &format)
}

fn to_datetime(text: String, format: Option<String>, options: Kwargs) -> Result<Value, Error> {
    let format =
        options.get::<Option<String>>("format")?.or(format).unwrap_or_else(|| "%Y-%m-%d %H:%M:%S".to_owned());
    options.assert_all_used()?;
    let read = jiff::fmt::strtime::parse(&format, &text)
        .and_then(|parsed| parsed.to_datetime().or_else(|_| parsed.to_date().map(DateTime::from)));
    let read = read
        .map_err(|error| invalid(format!("to_datetime: `{text}` is not of the form `{format}`: {error}")))?;
    // Python's date without a zone stands for the local time.
    let at = read.to_zoned(TimeZone::system()).map_err(|error| invalid(format!("to_datetime: {error}")))?;
    Ok(Value::from_object(Date(at)))
}

/// A date with the methods and fields of Python's that templates use.
#[derive(Debug)]
struct Date(Zoned);

impl Object for Date {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(match key.as_str()? {
            "year" => Value::from(self.0.year()),
            "month" => Value::from(self.0.month()),
            "day" => Value::from(self.0.day()),
            "hour" => Value::from(self.0.hour()),
            "minute" => Value::from(self.0.minute()),
            "second" => Value::from(self.0.second()),
            "microsecond" => Value::from(self.0.subsec_nanosecond() / 1000),
            _ => return None,
        })
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "strftime" => {
                let (format,): (String,) = from_args(args)?;
                written(&self.0, &format).map(Value::from)
            }
            "timestamp" => {
                let (): () = from_args(args)?;
                Ok(Value::from(self.0.timestamp().as_microsecond() as f64 / 1e6))
            }
            "isoformat" => {
                let (): () = from_args(args)?;
                Ok(Value::from(self.0.datetime().to_string()))
            }
            "weekday" => Ok(Value::from(self.0.weekday().to_monday_zero_offset())),
            "isoweekday" => Ok(Value::from(self.0.weekday().to_monday_one_offset())),
            _ => Err(Error::new(
                ErrorKind::UnknownMethod,
                format!(
                    "a date has no method `{method}`; known are strftime, timestamp, isoformat, weekday, isoweekday"
                ),
            )),
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.datetime().strftime("%Y-%m-%d %H:%M:%S"))
    }
}
