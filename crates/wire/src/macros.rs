//! Total enums of wire values.

/// Declares an enum over a wire integer, with `From` in both directions. A value without a name
/// becomes `Unknown`, so that reading never fails and a written value equals the one read.
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
            /// The value on the wire.
            pub const fn number(self) -> $int {
                match self {
                    $( Self::$variant => $value, )+
                    Self::Unknown(other) => other,
                }
            }

            /// The variant of a value on the wire.
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
