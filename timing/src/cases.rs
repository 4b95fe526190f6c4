//! The suites.

/// Calls `$f::<Suite>($argument)` for each suite.
macro_rules! each {
    ($f:ident($argument:expr); $($suite:ty),* $(,)?) => { $($f::<$suite>($argument);)* };
}

/// All suites.
macro_rules! suites {
    ($f:ident($argument:expr)) => {
        $crate::cases::each!($f($argument); antedate_aead::Aegis128L, antedate_aead::Aes128Ccm,
            antedate_aead::Aes128Ccm8, antedate_aead::Aes256Ccm, antedate_aead::Aes256Ccm8,
            antedate_aead::CcmStar32, antedate_aead::CoseCcm16_64_128, antedate_aead::CoseCcm64_128_256,
            antedate_aead::Aes128Gcm, antedate_aead::Aes256Gcm, antedate_aead::Aes128Ocb3,
            antedate_aead::AsconAead128, antedate_aead::ChaCha20Poly1305, antedate_aead::research::Morus1280)
    };
}

/// Suites that prepare templates.
macro_rules! sparse {
    ($f:ident($argument:expr)) => {
        $crate::cases::each!($f($argument); antedate_aead::Aes128Gcm, antedate_aead::Aes256Gcm,
            antedate_aead::Aes128Ocb3, antedate_aead::ChaCha20Poly1305)
    };
}

/// Suites that prepare fronts.
macro_rules! fronted {
    ($f:ident($argument:expr)) => {
        $crate::cases::each!($f($argument); antedate_aead::Aegis128L, antedate_aead::Aes128Ccm,
            antedate_aead::Aes128Ccm8, antedate_aead::Aes256Ccm8, antedate_aead::CcmStar32,
            antedate_aead::AsconAead128, antedate_aead::research::Morus1280)
    };
}

pub(crate) use {each, fronted, sparse, suites};
