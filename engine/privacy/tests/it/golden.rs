//! The formats, byte for byte. These bytes are in stores and under hashes: a change here is a new
//! format, made by an explicit decision, not by regenerating the fixture.

use crate::common::{context, key, message, randomness, recipient, wrap_context};
use expect_test::{Expect, expect};
use tg_privacy::content::CHUNK_BYTES;
use tg_privacy::{
    PrivacyLabel, Share, ShareIndex, Threshold, ThresholdSpec, combine, open_all, seal_all, split,
    unwrap, unwrap_share, wrap, wrap_share,
};
use tg_types::Encode;
use tg_types::hash::sha256;

/// Bytes in hex, 32 to a line.
fn check(bytes: &[u8], expected: &Expect) {
    let lines: Vec<String> = bytes.chunks(32).map(hex::encode).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn contexts_have_these_bytes() {
    check(
        &context().to_bytes(),
        &expect![[r#"
        9999999999999999999999999999999999999999999999999999999999999999
        8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c
        0111111111111111111111111111111111111111111111111111111111111111
        11"#]],
    );
    check(
        &wrap_context().to_bytes(),
        &expect![[r#"
            9999999999999999999999999999999999999999999999999999999999999999
            8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c
            0122222222222222222222222222222222222222222222222222222222222222
            22"#]],
    );
}

#[test]
fn short_message_has_these_bytes() {
    let sealed = seal_all(&key(1), &context(), randomness(1), b"attack at dawn").expect("short");
    assert_eq!(**open_all(&key(1), &context(), &sealed).expect("sealed"), *b"attack at dawn");
    check(
        &sealed,
        &expect![[r#"
        01dfe7bd57355d78d79fcdac6a123a8100f9f2f8b55b3bb8c7bfaf69ccbe9436
        bb501b855a36dbd9a6e676a455055d0e0f5c9e70849e5bff75920635737306b5
        3114c5169aeb"#]],
    );
}

#[test]
fn empty_message_has_these_bytes() {
    let sealed = seal_all(&key(1), &context(), randomness(1), b"").expect("short");
    check(
        &sealed,
        &expect![[r#"
        01dfe7bd57355d78d79fcdac6a123a8100f9f2f8b55b3bb8c7bfaf69ccbe9436
        bb501b855a36dbd9eeefec5ffb5844ca0fbc7f96e81f8afe"#]],
    );
}

#[test]
fn message_of_three_chunks_has_this_hash() {
    let plain = message(2 * CHUNK_BYTES + 1000);
    let sealed = seal_all(&key(1), &context(), randomness(1), &plain).expect("short");
    check(
        &sha256(&[&plain]),
        &expect!["6fb8bb374247e06d02d1fa42341ce188fa048acffab79dec5562063fe3f048ac"],
    );
    check(
        &sha256(&[&sealed]),
        &expect!["4be5c5b23e32f2fb6bcc1403e266a52092ddad2cdbd53556461e2a7e31e65179"],
    );
}

#[test]
fn share_book_has_these_bytes_and_its_shares_these() {
    let threshold = Threshold::new(ThresholdSpec { needed: 3, of: 4 }).expect("a threshold");
    let (book, shares) = split(&key(1), threshold);
    assert!(combine(&book, &shares).is_ok());
    check(
        &book.to_bytes(),
        &expect![[r#"
            0103d79fcdac6a123a8100f9f2f8b55b3bb8c7bfaf69ccbe9436bb501b855a36
            dbd9049a7225fd3f27b1fa196b3dd3dcd21e418cadc53fc723de6b7540fed22f
            e90ac10d7d960fc36dc4f58c6485a19f30c5c7d068be80581170949422e01328
            736982a0719fe384440696395cb1cd558a38bc2a022802bde668d15d8fdd8b81
            140b790887be080d935decaa5409c65c925aae86f63dbca6ef12829ec6b24126
            9c04d6"#]],
    );
    let exposed: Vec<String> = shares.iter().map(|share| hex::encode(*share.expose())).collect();
    expect![[r#"
        013dee2188e189d3a7ffa09ad0ef3dc487e7f5479f34072ae50851dd1a994d9b23
        023acc0b2e39b8b5cd53dbc47aa64e489f41c53c336da531fbdb925c2764eae626
        0306232ba7d930676bad7a5fab48728d19a7317aad58a31a1fd2c2803cfca67c04
        0460a026c7d0965ed847941dd2cf43de34eb4e8931c1c4e24aa3f06e0de81bd9d8"#]]
    .assert_eq(&exposed.join("\n"));
}

#[test]
fn wrapped_key_has_these_bytes_and_share_this_hash() {
    let wrapped = wrap(&key(1), recipient(1).public(), &wrap_context(), randomness(1));
    assert!(unwrap(&wrapped, &recipient(1), &wrap_context()).is_ok());
    check(
        &wrapped.to_bytes(),
        &expect![[r#"
            0101695eef2c1ceb6ddece63cf46fd6900706ee1f4029ffd36ee1bcdfedb0279
            ba9e5611fe0e31787a7a5d01c0d868ccd55eeac80eb81eb9cd7030afadf97ae9
            e1bf8fb1e74bae0431b15ec8dbc24c3070c254cef6c76954d32be02939680c7a
            2f75c76f63b437e9b92f7f141f484cb1994a52c1d4cc613f24d8fb0eea6e34ee
            848475a14c248a3485b39beef9cb08dfb141d06234e7dfc87189f908a906d547
            90a3f72071228e279c4e19d604b25577c5697936ab5dd980e5522cb29e62b705
            0c6373a28628da982a5ce36347ff1e3f82761c11406d9886327461dd7388c816
            1a8be481f189130c55e96edcca8340b06ab5a4ad45f7ff8f58e124a39c516b78
            f4ce92e6ba2f94dd5ca206d163311389567f59f35fda3ba29596885833a3dd22
            8b14a6233a3c985cc9fc4008a47747005ce8064ef84f234f60928de0cbae41ce
            5d1445e562f3dcc71882fc7bb61dfb923ce2eb36634a4c2e06293a58405949f3
            482d77e2ba193ebf34e2e7e4901298ce06f4c58830f148251ea33b18f9286f6c
            929ff089ccfa61e778f92cd10a231063f509210312b4b2e15048c37d38aba1a8
            15ba913d2250276b91816e23505d9e598b675ae94c581e8ed40fa6261eb3efe2
            b064e9256daded603083304af798fa48f33aaec99d8220f9a72bbb037f0929fb
            6b36a01e1b5dbb7de744d3fc367ad6fd11e04191dcf16f20783a98ba9a170c1b
            8f2c23704b7a96f3588694b5060e8260caca15dacd9d56026c181fcfbfcb53e3
            26664351d3d33a9d1dbfe21625c464c2ab5519b94f81606c02e44e38ee7a11e7
            f24e46c5b8b5248a0d78f74f775df1f3acbc6a834dae02711acead4735fbaaaf
            c30648bc9248d79a758b2d6dfce0a633d93c5f6e3bdccbd0d6948d45d91deff0
            189d3b4e782c16657614ffbfa31c2afb3dfdf3a5a1f97f57c670db6362e1cb03
            9f9aed3b67b773ffee3b8c68b08c3694bff7d1e025aa96173719946e729ff74c
            c9d521cb9a7d54cf38aacd373a1726f23ad10d0d9fcc22b5e2cb39e651de5daf
            11bd2b878ffed663668a223e651846e84a28206dfc91143aff5258b27bc09f0a
            3c2c83e030720e7b72ff037da2f86436d2939b0ffb81cc7b8f36ac8db85f1f4f
            2643c54509f613d0a6d03e06eecf3b38d9cc44a054e7ce513b38323e13d3cb0a
            6ac83e8821adb1f70d66c909497c69bf6b8b4eef64b59606a4b5fca96f6e1e8f
            f64953faf8d7919fec3dca4424ad8d0e2a3baf4571f3884a15b01cccf5307fa1
            da511d5edcbebfe1d97ff0a646c7b4514990ffcdac2d2c57619c9603de0f67b3
            9ff4b0fd43f6de4fcb1623e7813e44ee9ca7488da4f53f812221a735c8fc9ec2
            85f322b117bbb7509510ec54492b18b61331988851ef5d7675b4f06479bfa990
            f0968ffd0911c91db1051604b0b110415779d7f497fdd495e9f44a22ba5517aa
            a3c40505fd5fdd5eb87e39ffd163500ff0ae03ba9f4362ffdf64389588d0ed87
            696a8949b540cbd8615b402acd5e2d9f454f8abe3ea8fae2d08857c788854d47
            26e009afb765a5f2f375c41975fdfbb6bca970f32d6ebbfce010c183fe89fcc0
            4c568ab6ad2ef4ecb8eb76e0069e0db0863af60a2b3154e88bd59bbaf08ba64c
            89009f41dede62050ee8bc9c97d2c71a3bdc"#]],
    );

    let share = Share::new(ShareIndex::new(7).expect("an index"), [0x3c; 32]);
    let wrapped = wrap_share(&share, recipient(1).public(), &wrap_context(), randomness(1));
    assert!(unwrap_share(&wrapped, &recipient(1), &wrap_context()).is_ok());
    let bytes = wrapped.to_bytes();
    check(
        &sha256(&[&bytes]),
        &expect!["098b1cf2488f5e9c54009c27df845ab17854e3da6b7de3a66fca138e35b2cdfe"],
    );
    check(
        &bytes[1090..],
        &expect![[r#"
            b88d8d706ba5290c1657345842243af93acf9f3203edb9a40751b4e27271f947
            f6e494422f8fd9c314758a1b43317df07c155d5b46cac3ba0c02d24ee7795135
            efb0f44942f0fa4d3e2de9de3f571f512b"#]],
    );
}

#[test]
fn wrap_key_of_a_seed_has_this_digest() {
    check(
        recipient(1).public().digest().as_ref(),
        &expect!["b42e7a892979ebf67fe84b7b83714f6f69240f403c8f3eefe0cc100f48fbda57"],
    );
}

#[test]
fn labels_have_these_bytes() {
    let threshold = Threshold::new(ThresholdSpec { needed: 3, of: 4 }).expect("a threshold");
    check(&PrivacyLabel::Plain.to_bytes(), &expect!["01"]);
    check(&PrivacyLabel::Escrowed { threshold }.to_bytes(), &expect!["020304"]);
    check(&PrivacyLabel::Sealed.to_bytes(), &expect!["03"]);
}
