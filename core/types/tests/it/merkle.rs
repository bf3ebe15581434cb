//! Merkle proofs: what is there can be proved, and nothing else.

use tg_types::merkle::{Peaks, Proof, leaf_hash, root};
use tg_types::{Decode, Encode, Hash32};

fn leaves(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![number; usize::from(number)]).collect()
}

/// Every size up to one beyond a power of two, every place in it.
fn for_each_proof(mut check: impl FnMut(&[Vec<u8>], usize, &Proof, &Hash32)) {
    for count in 1..=33 {
        let leaves = leaves(count);
        let root = root(&leaves);
        for index in 0..leaves.len() {
            let proof = Proof::prove(&leaves, index).expect("the leaf exists");
            check(&leaves, index, &proof, &root);
        }
        assert_eq!(Proof::prove(&leaves, leaves.len()), None);
    }
}

#[test]
fn proof_of_every_leaf_of_every_size_verifies() {
    for_each_proof(|leaves, index, proof, root| {
        assert!(proof.verify(root, &leaves[index]));
        assert_eq!(Proof::from_bytes(&proof.to_bytes()).as_ref(), Ok(proof));
        assert_eq!(proof.index(), index as u64);
        assert_eq!(proof.count(), leaves.len() as u64);
    });
}

#[test]
fn proof_of_another_leaf_or_under_another_root_fails() {
    for_each_proof(|leaves, index, proof, root| {
        for (other, leaf) in leaves.iter().enumerate() {
            assert_eq!(proof.verify(root, leaf), other == index);
        }
        assert!(!proof.verify(root, b"no leaf"));
        assert!(!proof.verify(&leaf_hash(&leaves[index]), &leaves[index]));
    });
}

#[test]
fn proof_with_a_forged_index_or_count_fails() {
    for_each_proof(|leaves, index, proof, root| {
        let bytes = proof.to_bytes();
        for forged_count in 1..=40_u64 {
            for forged_index in 0..forged_count {
                let is_true = (forged_index, forged_count) == (index as u64, leaves.len() as u64);
                let mut forged = [forged_index.to_be_bytes(), forged_count.to_be_bytes()].concat();
                forged.extend(&bytes[16..]);
                let verdict = Proof::from_bytes(&forged).map(|p| p.verify(root, &leaves[index]));
                assert_eq!(verdict.unwrap_or(false), is_true);
            }
        }
    });
}

#[test]
fn proof_with_a_forged_path_fails() {
    for_each_proof(|leaves, index, proof, root| {
        let bytes = proof.to_bytes();
        for at in (16..bytes.len()).step_by(7) {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            let forged = Proof::from_bytes(&forged).expect("only a hash has changed");
            assert!(!forged.verify(root, &leaves[index]));
        }
        let mut longer = bytes.clone();
        longer.extend([0; 32]);
        assert!(Proof::from_bytes(&longer).is_err());
        if bytes.len() > 16 {
            assert!(Proof::from_bytes(&bytes[..bytes.len() - 32]).is_err());
        }
    });
}

#[test]
fn node_cannot_be_passed_off_as_a_leaf() {
    let leaves = leaves(4);
    let (left, right) = (leaf_hash(&leaves[0]), leaf_hash(&leaves[1]));
    let node_as_leaf = [left.as_bytes().as_slice(), right.as_bytes().as_slice()].concat();
    let pair = [node_as_leaf.clone(), [1].into_iter().chain(node_as_leaf).collect()];
    for leaf in pair {
        let three = [leaf, leaves[2].clone(), leaves[3].clone()];
        assert_ne!(root(&three), root(&leaves));
        assert_ne!(root(&three[..2]), root(&leaves));
    }
}

#[test]
fn root_tells_apart_what_differs() {
    let empty: [&[u8]; 0] = [];
    let mut roots = vec![root(&empty), root(&[b""]), root(&[b"", b""]), root(&[b"a", b"b"])];
    roots.push(root(&[b"b", b"a"]));
    roots.push(root(&[b"ab"]));
    roots.sort();
    roots.dedup();
    assert_eq!(roots.len(), 6);
}

#[test]
fn peaks_grow_to_the_root_of_all_leaves() {
    let all = leaves(130);
    let mut peaks = Peaks::EMPTY;
    for count in 0..all.len() {
        assert_eq!(peaks.root(), root(&all[..count]));
        assert_eq!(peaks.count(), count as u64);
        let bytes = peaks.to_bytes();
        assert_eq!(bytes.len(), 8 + 32 * (count.count_ones() as usize));
        peaks = Peaks::from_bytes(&bytes).expect("its own bytes");
        peaks.append(&all[count]);
    }
}

/// RFC 6962 trees, computed the other way round: split at the largest power of two below the size.
#[test]
fn root_is_that_of_the_rfc_tree() {
    fn top(leaves: &[Vec<u8>]) -> [u8; 32] {
        if let [leaf] = leaves {
            return *leaf_hash(leaf).as_bytes();
        }
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        tg_types::hash::sha256(&[&[1], &top(left), &top(right)])
    }
    for count in 1..=33 {
        let leaves = leaves(count);
        let sized = tg_types::hash::sha256(&[&[2], &u64::from(count).to_be_bytes(), &top(&leaves)]);
        assert_eq!(*root(&leaves).as_bytes(), sized);
    }
}
