"""The extensions, in the order in which they wrap the loop: the outermost first."""

EXTENSIONS: dict[str, str] = {  # "module:object", a `purerl.loop.extension.Extension`
    "levels": "purerl.extensions.levels.extension:EXTENSION",
    "self_play": "purerl.extensions.self_play.extension:EXTENSION",
    "groups": "purerl.extensions.groups.extension:EXTENSION",
    "planning": "purerl.extensions.planning.extension:EXTENSION",
    "objectives": "purerl.extensions.objectives.extension:EXTENSION",
    "self_tuning": "purerl.extensions.self_tuning.extension:EXTENSION",
    "host": "purerl.extensions.host.extension:EXTENSION",
}
