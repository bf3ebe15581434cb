//! How near regions are to each other, as far as their names tell: a region of an area is named
//! after it, as in `eu-de` and `eu-fr`. Names are what owners say of their nodes, so they exclude
//! nobody who was not excluded by name.

use tg_types::Name;

/// What parts the name of an area from the rest of a region's.
const AREA_END: char = '-';

/// How near a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// In another area.
    Far,
    /// In the same area.
    Near,
    /// The same region.
    Same,
}

impl Nearness {
    /// How near a region is to that of a client or its data; all are as far from nowhere.
    pub fn of(home: Option<&Name>, region: &Name) -> Self {
        match home {
            Some(home) if home == region => Self::Same,
            Some(home) if area(home) == area(region) => Self::Near,
            Some(_) | None => Self::Far,
        }
    }
}

fn area(region: &Name) -> &str {
    let name = region.as_str();
    name.split_once(AREA_END).map_or(name, |(area, _)| area)
}

#[cfg(test)]
mod tests {
    use super::Nearness;
    use crate::tests::name;

    #[test]
    fn regions_are_near_that_share_the_name_of_an_area() {
        let check = |home: &str, region: &str, expected| {
            assert_eq!(Nearness::of(Some(&name(home)), &name(region)), expected, "{home} {region}");
        };
        check("eu-de", "eu-de", Nearness::Same);
        check("eu-de", "eu-fr-2", Nearness::Near);
        check("eu-de", "eu", Nearness::Near);
        check("eu-de", "europe-de", Nearness::Far);
        check("eu-de", "us-de", Nearness::Far);
        check("home", "home", Nearness::Same);
        assert_eq!(Nearness::of(None, &name("eu-de")), Nearness::Far);
    }
}
