"""Features around the loop. Each package is one row of `purerl.catalog.extensions`; nothing else imports it."""
