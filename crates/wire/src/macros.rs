//! Enums of wire values, total by an `Unknown`.

/// Declares an enum over an integer of the wire, with `From` in both directions. A value without a name is
/// kept in `Unknown`, so that reading never fails and writing gives back what was read.
macro_rules! wire_enum {
    (
        $( #[$meta:meta] )*
        pub enum $name:ident($int:ty) {
            $( $( #[$variant_meta:meta] )* $variant:ident = $value:expr ),+ $(,)?
        }
    ) => {
        $( #[$meta] )*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $( #[$variant_meta] )* $variant, )+
            /// a value without a name here
            Unknown($int),
        }

        impl $name {
            /// Every value that has a name.
            pub const NAMED: &'static [Self] = &[$( Self::$variant ),+];

            /// The value on the wire.
            pub const fn number(self) -> $int {
                match self {
                    $( Self::$variant => $value, )+
                    Self::Unknown(other) => other,
                }
            }

            /// The meaning of a value on the wire.
            #[inline]
            pub const fn from_number(value: $int) -> Self {
                match value {
                    $( $value => Self::$variant, )+
                    other => Self::Unknown(other),
                }
            }
        }

        impl From<$int> for $name {
            fn from(value: $int) -> Self {
                Self::from_number(value)
            }
        }

        impl From<$name> for $int {
            fn from(value: $name) -> Self {
                value.number()
            }
        }
    };
}
