"""Features around the loop. Each room is one row of `purerl.catalog.extensions`; nothing else imports it."""
