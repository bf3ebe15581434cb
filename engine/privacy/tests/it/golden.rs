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
    let (book, shares) = split(&key(1), threshold, randomness(1));
    assert!(combine(&book, &shares).is_ok());
    check(
        &book.to_bytes(),
        &expect![[r#"
        0103d79fcdac6a123a8100f9f2f8b55b3bb8c7bfaf69ccbe9436bb501b855a36
        dbd904d8e23e25de6859b1286ee7bf077c783ae04def79d5f77816b968cd9c3c
        6ee5bb1407fb5344684b087758e700add7e9fdcf5b888f1c31c0d233977b283e
        aa6bcc14e74b459e18688d459868bf1e97092bd3d78d45274b6348795b2f2140
        d55641f0d9653b9d49df8bd4713a540942347e0593019b99deccfc095a1de195
        82d37e"#]],
    );
    let exposed: Vec<String> = shares.iter().map(|share| hex::encode(*share.expose())).collect();
    expect![[r#"
        01f335ce3c8dac4c6485f9d60fdd5e96da1a4f46854f3a8cc869db667c7de77eb8
        022eb2dc6db8f3fdbd155852a6698a219841af4ec5ff740c7880b9d5dd6b91c24e
        03dc861350345eb0d891a085a8b5d5b6435ae10941b14f81b1e863b2a01777bdf7
        04323ddb81b60461a1354d128ed0d815f8428eb6e375e72b1e4736da3aab3d6807"#]]
    .assert_eq(&exposed.join("\n"));
}

#[test]
fn wrapped_key_has_these_bytes_and_share_this_hash() {
    let wrapped = wrap(&key(1), recipient(1).public(), &wrap_context(), randomness(1));
    assert!(unwrap(&wrapped, &recipient(1), &wrap_context()).is_ok());
    check(
        &wrapped.to_bytes(),
        &expect![[r#"
        0101576c821f030c61865fd20a1f41a54873e8375da4629dd6b12712cfd5c2bf
        7678fbed8e2633ba1d74ae01373302bae85bd1ecdc1fdac522e652c176c2a571
        df7b4df0c9fc1141cca406b4f13d4d2cdb654cac9338c51efe20cee175ecd28f
        108288c35bdba5754be8ae6d62109a8aabfeabc518e5793ebb4a861281031f84
        45f6fa81be3ca1a03ed951bb61b63ec8a306e9a65b9f79b6aa8f05df798d4b92
        4e5f51c33e9b7d882d0a7ba3ab6a2c9658fac81776d43357eb22d9d61bd15e77
        3fb12c06e6632a1229580718df82fa86091d354726e0da0e818f5e9d11dd10e2
        29b3a55b4cc66e363ad9a9243282b8ff87dfc6a0878ce7ba53f6d1b232fa2d85
        ca8eb88fcc6f19399401979fdd97454099b11267576d94a1e47e9808817a4a28
        432f8a7a727bc6783f5589e02170e07dbe48c8dcb7e9bc411d65f1fd5dab58be
        b72f3a4ad045697b37ba3f572f3620474604d1e97380eca0d891de874e94290f
        bea22a1566e0e491effa53f549683d5c4d5618cdfd78f52006d6a4c5a34cb944
        f3c70742cbd4b76ad415bb570c22e37eb1cf25094165365157dcf87d4bf6ebea
        459bd1e6ee2b79b18c8fb754d1b030affcb2af7358150de249dbf162e2b5ad8d
        73c7a031235c984a54b474bdc69ea868495e595191935b6bd8c078969c7680e0
        e1f9c222c036861cf4dc8e24e748cb4f261ff20b2ef323db695f5db2789090ff
        51fde72b1aaa3b92dfc6d3300180e8c675c282bb41e5c5807d24b18674736a6b
        c65c959341f866ce6f071b65432f1d71172cb784393a9aaaf6b47d316d5eedd0
        3b308bb12c6e3250ab343159f5945cf17876a12b575d01008cc7819cfe3c6b59
        05782aa39e4adde83010c4f4835c0535b2c19c4a31d9b1c80894e3e41e196fea
        ea3674bca99207aa1f455d92c85ee0b0c3e16a55b8cb6acc8f60ac3a15ab498c
        d16f6e78771ff3ad3896f4fc4c225cbd6908b8da03646e70851bd4e0814c8db6
        0330ad844159e3934bac2075ee6eff93046889e6865791f98d6aded5dc69059d
        13d488048fa9f1c4a4ac737f1bd17f9bd65b392c25d6ae625119daf61ec34ace
        cd4c29033186a2a87b4e407f981d357ead13d82ce087569d0b0880d61e5a53dc
        70bf1ef4269ca36da32a3ecce625f271179e0d9a7c27d16b6f8db55ba0635ef7
        9297df3e55e081d24e37f38bd6b1e69337d6d4bd12008f37c84d9732fcaa0efd
        7919768cb4dd1520645d6d2a76b8bf9b8b8d178f692d5fe2a60739d01877359a
        cf40e267b12218160aaf8d3a470569b64a03205dd7b0e673a15fd8044f94455c
        8810f0b7d08da97354580fa99c09943d474c6d04ec35942827206ffc4481c341
        c840de346f366e768139d5920599e08264a726740d79b53944abd11ff8fe7b47
        0be629a62a305e65a0e985e6715aec3b91249e7f78804f2c294b13bbf9b8579c
        7bc2c12f858a750c15ab226cb35494257da15409b75220ac257652651c646b64
        d4e93bf77f806601ddaec945b726d8bdf6e7a9efff6c9f8f5fc33ce02fd2f7b3
        8bffa4ce96c04b65cc7681d89d1ec956a14877383f20976e8500f2524c14fe36
        5254af920a967b43afccd9c8766df54e195343e73aecba38ed94f65d30540e05
        c9386781add1cc722252e5b3a711375cf93d"#]],
    );

    let share = Share::new(ShareIndex::new(7).expect("an index"), [0x3c; 32]);
    let wrapped = wrap_share(&share, recipient(1).public(), &wrap_context(), randomness(1));
    assert!(unwrap_share(&wrapped, &recipient(1), &wrap_context()).is_ok());
    let bytes = wrapped.to_bytes();
    check(
        &sha256(&[&bytes]),
        &expect!["d46e0337d8ed3bdaa8acb4c17c885fbf427697c3acc641889d5b7c12df0dbf17"],
    );
    check(
        &bytes[1090..],
        &expect![[r#"
        d18736863090479e351ccf8ad50c58bf048b645dcea7d52b2194bc9e8a69d71c
        5199cb923313ccbee7a66347b79fabc7798caa034f6d7d9b387775dc1b335334
        fc2c4b655dc9cbb31591db220a92f2413a"#]],
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
