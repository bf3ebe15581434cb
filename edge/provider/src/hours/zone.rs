//! The machine's time zone, from `/etc/localtime`, so that hours mean what the wall clock shows.

use super::WeekMinute;
use crate::root::Root;
use std::path::Path;
use tz::TimeZone;

/// Where a machine keeps its zone. Without the file its time is UTC.
const ZONE_FILE: &str = "/etc/localtime";

/// Why a zone cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// The file is not one of time zones.
    #[error("{ZONE_FILE} is not a file of a time zone")]
    Form(#[source] tz::TzError),
    /// The zone does not say what time it is then.
    #[error("the time zone says nothing of {seconds} s after the Unix epoch")]
    Moment {
        /// The moment.
        seconds: i64,
        /// Why.
        #[source]
        source: tz::TzError,
    },
}

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of the machine whose files are below `root`.
    pub fn read(root: &Path) -> Result<Self, ZoneError> {
        match Root::new(root).bytes(ZONE_FILE) {
            Some(bytes) => TimeZone::from_tz_data(&bytes).map(Self).map_err(ZoneError::Form),
            None => Ok(Self(TimeZone::utc())),
        }
    }

    /// The minute of the week in which a moment lies, given as seconds since the Unix epoch.
    pub fn week_minute(&self, seconds: i64) -> Result<WeekMinute, ZoneError> {
        let local = self.0.find_local_time_type(seconds);
        let local = local.map_err(|source| ZoneError::Moment { seconds, source })?;
        let shifted = seconds.saturating_add(i64::from(local.ut_offset()));
        Ok(WeekMinute::of_local_seconds(shifted))
    }
}

#[cfg(test)]
mod tests {
    use super::{Zone, ZoneError};
    use crate::hours::{WeekMinute, Weekday};
    use crate::testing::Folder;

    /// A file of version 2 without any transition, whose rule is its last line.
    fn zone_file(rule: &str) -> Vec<u8> {
        let mut file = Vec::new();
        for _ in 0..2 {
            file.extend_from_slice(b"TZif2");
            file.extend_from_slice(&[0; 15]);
            // Counts: no UT marks, no standard marks, no leaps, no transitions, 1 type, 4 letters.
            for count in [0_u32, 0, 0, 0, 1, 4] {
                file.extend_from_slice(&count.to_be_bytes());
            }
            file.extend_from_slice(&[0, 0, 0x0e, 0x10, 0, 0]); // 3,600 s, no summer time, letter 0
            file.extend_from_slice(b"CET\0");
        }
        file.extend_from_slice(format!("\n{rule}\n").as_bytes());
        file
    }

    fn minute(day: Weekday, hour: u16, minute: u16) -> WeekMinute {
        WeekMinute::new(day, hour * 60 + minute).expect("a minute of the day")
    }

    #[test]
    fn summer_time_follows_the_rule_of_the_zone() {
        let folder = Folder::new();
        folder.write("etc/localtime", zone_file("CET-1CEST,M3.5.0,M10.5.0/3"));
        let zone = Zone::read(folder.path()).expect("a zone");
        // Thursday, 15 January 2026, 12:00 UTC, and Wednesday, 15 July 2026, 22:30 UTC.
        let winter = zone.week_minute(1_768_478_400).expect("a minute");
        assert_eq!(winter, minute(Weekday::Thursday, 13, 0));
        let summer = zone.week_minute(1_784_154_600).expect("a minute");
        assert_eq!(summer, minute(Weekday::Thursday, 0, 30));
    }

    #[test]
    fn machine_without_a_zone_has_utc() {
        let folder = Folder::new();
        let zone = Zone::read(folder.path()).expect("UTC");
        let found = zone.week_minute(1_768_478_400).expect("a minute");
        assert_eq!(found, minute(Weekday::Thursday, 12, 0));
    }

    #[test]
    fn prop_file_that_is_cut_off_or_changed_is_refused_or_read() {
        let file = zone_file("CET-1CEST,M3.5.0,M10.5.0/3");
        let folder = Folder::new();
        arbtest::arbtest(|u| {
            let mut bytes = file.clone();
            bytes.truncate(u.int_in_range(0..=file.len())?);
            if let Some(byte) = bytes.get_mut(u.int_in_range(0..=file.len())?) {
                *byte = u.arbitrary()?;
            }
            folder.write("etc/localtime", &bytes);
            if let Ok(zone) = Zone::read(folder.path()) {
                let _any_minute = zone.week_minute(u.arbitrary()?);
            }
            Ok(())
        })
        .budget_ms(300);
        folder.write("etc/localtime", "UTC");
        assert!(matches!(Zone::read(folder.path()), Err(ZoneError::Form(_))));
    }
}
