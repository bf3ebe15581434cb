//! Tests of hours: against a plain table of all minutes of the week, and on lists that are wrong.

use super::{DAYS, Hours, HoursError, MINUTES_PER_DAY, MINUTES_PER_WEEK, WeekMinute, Weekday};
use crate::testing::noise;
use arbtest::arbitrary;
use arbtest::arbitrary::Unstructured;

fn at(day: Weekday, hour: u16, minute: u16) -> WeekMinute {
    WeekMinute::new(day, hour * 60 + minute).expect("a minute of the day")
}

fn hours(text: &str) -> Hours {
    text.parse().expect("hours")
}

#[test]
fn night_runs_over_midnight() {
    let night = hours("22-08");
    assert!(night.is_open(at(Weekday::Monday, 22, 0)));
    assert!(night.is_open(at(Weekday::Tuesday, 7, 59)));
    assert!(!night.is_open(at(Weekday::Tuesday, 8, 0)));
    assert!(night.is_open(at(Weekday::Sunday, 23, 0)));
    assert!(night.is_open(at(Weekday::Monday, 1, 0)), "Sunday's night ends on Monday");
    assert_eq!(night.until_change(at(Weekday::Sunday, 23, 0)), Some(9 * 60));
    assert_eq!(night.until_change(at(Weekday::Monday, 12, 30)), Some(9 * 60 + 30));
}

#[test]
fn days_have_hours_of_their_own() {
    let week = hours("mon-fri 18:30-07:00, sat-sun 00-24");
    assert!(!week.is_open(at(Weekday::Monday, 6, 0)), "Sunday is whole, but has no night");
    assert!(week.is_open(at(Weekday::Tuesday, 6, 0)));
    assert!(!week.is_open(at(Weekday::Friday, 18, 29)));
    assert!(week.is_open(at(Weekday::Friday, 18, 30)));
    // From Friday evening to the end of Sunday.
    let minutes = week.until_change(at(Weekday::Friday, 18, 30));
    assert_eq!(minutes, Some(5 * 60 + 30 + 48 * 60));
}

#[test]
fn span_of_one_day_ends_on_the_next() {
    let friday = hours("FRI 22-08");
    assert!(friday.is_open(at(Weekday::Saturday, 7, 0)));
    assert!(!friday.is_open(at(Weekday::Friday, 7, 0)));
    let over_the_week = hours("sat-mon 9-17");
    assert!(over_the_week.is_open(at(Weekday::Sunday, 9, 0)));
    assert!(!over_the_week.is_open(at(Weekday::Tuesday, 9, 0)));
}

#[test]
fn hours_without_a_change_have_none() {
    for text in ["00-24", "0-24:00", "00-12, 12-24", "mon-sun 12-12:01, mon-sun 12:01-12"] {
        assert_eq!(hours(text), Hours::always(), "{text}");
    }
    assert_eq!(Hours::always().until_change(at(Weekday::Monday, 0, 0)), None);
}

#[test]
fn week_minute_of_the_epoch_is_on_a_thursday() {
    let check = |seconds, expected| assert_eq!(WeekMinute::of_local_seconds(seconds), expected);
    check(0, at(Weekday::Thursday, 0, 0));
    check(59, at(Weekday::Thursday, 0, 0));
    check(-1, at(Weekday::Wednesday, 23, 59));
    check(4 * 86_400, at(Weekday::Monday, 0, 0));
    let _no_overflow = [i64::MIN, i64::MAX].map(WeekMinute::of_local_seconds);
    assert_eq!(WeekMinute::new(Weekday::Sunday, MINUTES_PER_DAY), None);
}

#[test]
fn lists_of_another_form_are_refused() {
    let error = |text: &str| text.parse::<Hours>().expect_err(text);
    for text in ["", ",", "22", "22-08,", "mon", "mon fri 22-08", "22 - 08"] {
        assert!(matches!(error(text), HoursError::Form { .. }), "{text}");
    }
    for text in ["2x-08", "25-08", "22-24:01", "22:60-08", "22:5-08", "-08", "+2-08", "24-08"] {
        assert!(matches!(error(text), HoursError::Time { .. }), "{text}");
    }
    for text in ["day 22-08", "mon- 22-08", "mon-fri-sun 22-08", "0-6 22-08"] {
        assert!(matches!(error(text), HoursError::Day { .. }), "{text}");
    }
    assert!(matches!(error("08-8:00"), HoursError::Empty { .. }));
    assert!(matches!(error("mon-fri 08-10, 12-14"), HoursError::DaysMissing { .. }));
    assert!(matches!(error(&"1-2,".repeat(64)), HoursError::TooMany { found: 65 }));
    let found = error("22-08, sun noon").to_string();
    assert_eq!(found, "rule \"sun noon\" at 6 is not like 22-08 or mon-fri 18:30-07:00");
}

/// A rule in words, and the minutes of the week that it means.
struct Sample {
    text: String,
    minutes: Vec<bool>,
}

fn sample(u: &mut Unstructured<'_>) -> arbitrary::Result<Sample> {
    let mut sample =
        Sample { text: String::new(), minutes: vec![false; usize::from(MINUTES_PER_WEEK)] };
    for number in 0..u.int_in_range(1..=5)? {
        let (first, last) = (u.int_in_range(0..=6_u16)?, u.int_in_range(0..=6_u16)?);
        let start = u.int_in_range(0..=MINUTES_PER_DAY - 1)?;
        let end = u.int_in_range(0..=MINUTES_PER_DAY)?;
        if start == end {
            continue;
        }
        let separator = if sample.text.is_empty() { "" } else { ", " };
        let day = |day: u16| DAYS[usize::from(day)];
        sample.text += &format!(
            "{separator}{}-{} {:02}:{:02}-{}:{:02}",
            day(first),
            day(last),
            start / 60,
            start % 60,
            end / 60,
            end % 60
        );
        let _the_first_is_enough = number;
        let mut today = first;
        loop {
            let mut minute = start;
            let mut place = today * MINUTES_PER_DAY + start;
            while minute != end {
                sample.minutes[usize::from(place % MINUTES_PER_WEEK)] = true;
                place += 1;
                minute += 1;
                if minute == MINUTES_PER_DAY && end != MINUTES_PER_DAY {
                    minute = 0;
                }
            }
            if today == last {
                break;
            }
            today = (today + 1) % 7;
        }
    }
    if sample.text.is_empty() {
        sample.text = "mon 00:00-00:01".to_owned();
        sample.minutes[0] = true;
    }
    Ok(sample)
}

/// Goal: hours mean the minutes that their words say, over midnight and over the end of the week.
/// Method: compare with a table that is filled minute by minute.
#[test]
fn prop_hours_are_the_minutes_of_their_rules() {
    arbtest::arbtest(|u| {
        let Sample { text, minutes } = sample(u)?;
        let parsed = hours(&text);
        let table = |minute: u16| minutes[usize::from(minute % MINUTES_PER_WEEK)];
        for minute in 0..MINUTES_PER_WEEK {
            assert_eq!(parsed.is_open(WeekMinute(minute)), table(minute), "{text} {minute}");
        }
        let now = u.int_in_range(0..=MINUTES_PER_WEEK - 1)?;
        let other = (1..=MINUTES_PER_WEEK).find(|ahead| table(now + ahead) != table(now));
        assert_eq!(parsed.until_change(WeekMinute(now)), other, "{text} {now}");
        assert_eq!(hours(&parsed.to_string()), parsed, "{text}");
        Ok(())
    });
}

#[test]
fn prop_any_text_is_refused_or_read_back() {
    arbtest::arbtest(|u| {
        let pieces = ["mon", "fri", "-", " ", ",", ":", "22", "08", "24", "0", "30"];
        if let Ok(parsed) = noise(u, &pieces)?.parse::<Hours>() {
            assert_eq!(hours(&parsed.to_string()), parsed);
        }
        Ok(())
    });
}
