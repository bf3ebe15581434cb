//! Tickets and names: one text for one meaning, and every slip is found.

use crate::support::id;
use arbtest::arbitrary::{self, Unstructured};
use tg_net::{
    BlobId, PeerId, RelayInfo, RelayUrl, RelayUrlError, Ticket, TicketError, TicketParts,
    TicketValidator,
};
use tg_types::{Decode as _, Encode as _, GenesisHash, Hash32, KeyError, NodeId};

fn relay_info(number: u8) -> RelayInfo {
    let url = format!("https://relay-{number}.example.org:{}", 3340 + u16::from(number));
    RelayInfo { url: url.parse().expect("a URL"), certificate: Hash32::new([number; 32]) }
}

fn parts(relays: u8, validators: u8) -> TicketParts {
    let relays: Vec<_> = (0..relays).map(relay_info).collect();
    let of = |number: u8| {
        let place = usize::from(number) % relays.len().max(1);
        let relay = relays.get(place).map_or_else(|| relay_info(0).url, |r| r.url.clone());
        TicketValidator { id: id(number), relay }
    };
    TicketParts {
        chain: "local-1".parse().expect("a name"),
        genesis: GenesisHash::new([9; 32]),
        validators: (0..validators).map(of).collect(),
        relays,
    }
}

fn any_ticket(u: &mut Unstructured<'_>) -> arbitrary::Result<Ticket> {
    let mut parts = parts(u.int_in_range(1..=16)?, u.int_in_range(1..=64)?);
    parts.genesis = GenesisHash::new(u.arbitrary()?);
    for relay in &mut parts.relays {
        relay.certificate = Hash32::new(u.arbitrary()?);
    }
    Ok(Ticket::new(parts).expect("a ticket"))
}

#[test]
fn ticket_says_what_was_put_in() {
    let parts = parts(2, 3);
    let ticket = Ticket::new(parts.clone()).expect("a ticket");
    let read: Ticket = ticket.to_string().parse().expect("reads");
    assert_eq!(read, ticket);
    assert_eq!((read.chain(), read.genesis()), (parts.chain, parts.genesis));
    assert_eq!(read.relays(), parts.relays);
    assert_eq!(read.validators(), parts.validators);
}

#[test]
fn ticket_is_one_short_line_of_plain_letters() {
    let text = Ticket::new(parts(1, 1)).expect("a ticket").to_string();
    assert!(text.starts_with("tgt1"));
    assert!(text.bytes().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit()));
    assert!(text.len() < 300, "{} letters", text.len());
    let longest = Ticket::new(parts(16, 64)).expect("a ticket").to_string();
    assert!(longest.len() < Ticket::LETTERS_MAX, "{} letters", longest.len());
}

#[test]
fn ticket_form_is_fixed() {
    let text = Ticket::new(parts(1, 1)).expect("a ticket").to_string();
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| str::from_utf8(line).expect("letters")).collect();
    expect_test::expect![[r#"
        tgt1aedwy33dmfwc2mijbeeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeq
        scijbearq4tfnrqxsljqfzsxqylnobwgkltpojttumztgqyaaaaaaaaaaaaaaaaa
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabhnvcppgow2sc2yvdvdicu3ynonst
        eflxdxrehjr2ybekdc2z3iuqakadl6l5gmsf3a"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn prop_ticket_is_read_as_written() {
    arbtest::arbtest(|u| {
        let ticket = any_ticket(u)?;
        assert_eq!(ticket.to_string().parse(), Ok(ticket.clone()));
        assert_eq!(Ticket::from_bytes(&ticket.to_bytes()), Ok(ticket));
        Ok(())
    });
}

#[test]
fn ticket_with_any_letter_changed_is_refused() {
    let text = Ticket::new(parts(1, 2)).expect("a ticket").to_string();
    for (at, old) in text.char_indices() {
        for new in "abcdefghijklmnopqrstuvwxyz234567A=018 ".chars().filter(|new| *new != old) {
            let mut changed = text.clone();
            changed.replace_range(at..=at, &new.to_string());
            let error = changed.parse::<Ticket>().expect_err("is refused");
            let is_letter = matches!(new, 'a'..='z' | '2'..='7');
            match error {
                TicketError::Prefix => assert!(at < 4),
                TicketError::Letter { at: found, .. } => {
                    assert!(!is_letter);
                    assert_eq!(found, at + 1);
                }
                TicketError::Checksum => assert!(at >= 4 && is_letter),
                TicketError::End => assert_eq!(at, text.len() - 1),
                other @ (TicketError::TooLong { .. }
                | TicketError::Content(_)
                | TicketError::Relays(_)
                | TicketError::Validators(_)
                | TicketError::UnlistedRelay { .. }
                | TicketError::Repeated) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn ticket_that_is_cut_or_longer_is_refused() {
    let text = Ticket::new(parts(1, 2)).expect("a ticket").to_string();
    for end in 0..text.len() {
        assert!(text[..end].parse::<Ticket>().is_err(), "{end} letters");
    }
    for more in ["a", "aa", "aaaaaaaa", " ", "\n", "é"] {
        assert!(format!("{text}{more}").parse::<Ticket>().is_err(), "{more:?}");
        assert!(format!("{more}{text}").parse::<Ticket>().is_err(), "{more:?}");
    }
    let long = format!("tgt1{}", "a".repeat(Ticket::LETTERS_MAX));
    assert!(matches!(long.parse::<Ticket>(), Err(TicketError::TooLong { .. })));
}

#[test]
fn prop_bytes_that_are_a_ticket_are_its_bytes() {
    arbtest::arbtest(|u| {
        let mut bytes = any_ticket(u)?.to_bytes();
        for _ in 0..u.int_in_range(0..=3)? {
            let at = u.choose_index(bytes.len())?;
            bytes[at] = u.arbitrary()?;
        }
        bytes.truncate(u.int_in_range(0..=bytes.len())?.max(bytes.len().saturating_sub(3)));
        if let Ok(ticket) = Ticket::from_bytes(&bytes) {
            assert_eq!(ticket.to_bytes(), bytes);
        }
        Ok(())
    });
}

#[test]
fn ticket_with_wrong_lists_is_refused() {
    let refused = |parts: TicketParts| Ticket::new(parts).expect_err("is refused");
    assert!(matches!(refused(parts(0, 0)), TicketError::Relays(_)));
    assert!(matches!(refused(parts(1, 0)), TicketError::Validators(_)));
    assert!(matches!(refused(parts(17, 1)), TicketError::Relays(_)));
    assert!(matches!(refused(parts(1, 65)), TicketError::Validators(_)));
    let mut twice = parts(2, 2);
    twice.validators[1] = twice.validators[0].clone();
    assert_eq!(refused(twice), TicketError::Repeated);
    let mut twice = parts(2, 1);
    twice.relays[1] = twice.relays[0].clone();
    assert_eq!(refused(twice), TicketError::Repeated);
    let mut elsewhere = parts(1, 1);
    elsewhere.validators[0].relay = relay_info(7).url;
    assert!(matches!(refused(elsewhere), TicketError::UnlistedRelay { .. }));
}

#[test]
fn relay_url_has_one_form() {
    for text in ["https://127.0.0.1:3340", "https://[::1]:1", "https://a.example:443"] {
        assert_eq!(text.parse::<RelayUrl>().map(|url| url.to_string()), Ok(text.to_owned()));
    }
    let refused = |text: &str| text.parse::<RelayUrl>().expect_err(text);
    assert_eq!(refused("http://a.example:1"), RelayUrlError::Scheme);
    for text in ["https://a.example", "https://a.example:1/", "https://u@a:1", "https://:1"] {
        assert!(matches!(refused(text), RelayUrlError::Address(_)), "{text}");
    }
    for text in
        ["https://A.example:1", "https://[0::1]:1", "https://1.2.3:4", "https://9.9.9.999:4"]
    {
        assert_eq!(refused(text), RelayUrlError::Host, "{text}");
    }
}

#[test]
fn prop_relay_info_is_read_as_written() {
    arbtest::arbtest(|u| {
        let mut info = relay_info(u.arbitrary()?);
        info.certificate = Hash32::new(u.arbitrary()?);
        let bytes = info.to_bytes();
        assert_eq!(RelayInfo::from_bytes(&bytes), Ok(info));
        let cut = u.int_in_range(0..=bytes.len() - 1)?;
        assert!(RelayInfo::from_bytes(&bytes[..cut]).is_err());
        Ok(())
    });
}

#[test]
fn ids_are_read_as_shown() {
    let peer = id(5);
    assert_eq!(peer.to_string().parse(), Ok(peer));
    assert_eq!(PeerId::from_bytes(&peer.to_bytes()), Ok(peer));
    assert_eq!(PeerId::try_from(NodeId::from(peer)), Ok(peer));
    assert_eq!(PeerId::new([0; 32]), Err(KeyError::SmallOrder));
    assert_eq!(PeerId::new([2; 32]).is_err(), tg_types::PublicKey::new([2; 32]).is_err());
    let blob = BlobId::of(b"abc");
    // The published test vector of BLAKE3 for "abc".
    let digits = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    assert_eq!(blob.to_string(), digits);
    assert_eq!(digits.parse(), Ok(blob));
    assert_eq!(BlobId::from_bytes(&blob.to_bytes()), Ok(blob));
    assert!("6437".parse::<BlobId>().is_err());
}
