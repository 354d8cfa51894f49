//! Sections of the config file, declared with the default and the accepted range of each setting.

use std::ops::RangeInclusive;

/// A numeric setting: its name in the file with its sections (`engine.queue`), its value, and the accepted range.
pub type NumericSetting = (&'static str, u64, RangeInclusive<u64>);

/// The value of a numeric setting.
pub fn number(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}

/// Declares a section: `pub NAME: TYPE = DEFAULT;`, with the accepted range after the default of a number.
#[macro_export]
macro_rules! settings {
    (
        $(#[$doc:meta])*
        $section:literal $settings:ident {
            $($(#[$about:meta])* pub $name:ident: $type:ty = $default:expr $(, $range:expr)?;)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $settings {
            $($(#[$about])* pub $name: $type,)+
        }

        impl Default for $settings {
            fn default() -> Self {
                Self { $($name: $default),+ }
            }
        }

        impl $settings {
            /// The numbers.
            pub fn numbers(&self) -> Vec<$crate::NumericSetting> {
                vec![$($((
                    concat!($section, ".", stringify!($name)),
                    $crate::settings::number(self.$name),
                    $range,
                ),)?)+]
            }
        }
    };
}
