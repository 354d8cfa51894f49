//! Users and tokens.

use super::NOW;
use seckill_model::user::Role;
use seckill_store::SharedStore;

pub(super) async fn one_phone_is_one_user(store: SharedStore) {
    let phone = "13812345678".parse().unwrap();
    let logins = (0..8).map(|_| store.user_with_phone(&phone, "user_a", NOW));
    let users = futures::future::join_all(logins).await;
    let first = users[0].as_ref().unwrap();
    for user in &users {
        assert_eq!(user.as_ref().unwrap(), first);
    }
    let other = "13912345678".parse().unwrap();
    let other = store.user_with_phone(&other, "user_b", NOW).await.unwrap();
    assert!(other.id != first.id && other.nick_name == "user_b");
}

pub(super) async fn users_without_a_phone_are_many(store: SharedStore) {
    let names = ["user_1".to_owned(), "user_2".to_owned(), "user_1".to_owned()];
    let users = store.create_users(&names, NOW).await.unwrap();
    let kept: Vec<_> = users.iter().map(|user| user.nick_name.clone()).collect();
    assert_eq!(kept, names);
    let mut ids: Vec<_> = users.iter().map(|user| user.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3, "{users:?}");
}

pub(super) async fn a_token_is_valid_until_it_is_revoked(store: SharedStore) {
    let (digest, other) = ("a".repeat(64), "A".repeat(64));
    let id = store.create_token(&digest, Role::Operator, "till", NOW).await.unwrap();
    let token = store.token(&digest).await.unwrap().unwrap();
    assert_eq!((token.id, token.role, token.name.as_str()), (id, Role::Operator, "till"));
    assert_eq!(store.token(&other).await.unwrap(), None, "digests compare byte by byte");
    assert!(store.revoke_token(id, NOW).await.unwrap());
    assert!(!store.revoke_token(id, NOW).await.unwrap(), "once");
    assert!(!store.revoke_token(id + 1, NOW).await.unwrap());
    assert_eq!(store.token(&digest).await.unwrap(), None);
    let listed = store.tokens().await.unwrap();
    assert_eq!(listed.iter().map(|it| it.revoke_time).collect::<Vec<_>>(), [Some(NOW)]);
}
