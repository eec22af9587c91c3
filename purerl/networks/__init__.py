"""Networks: torsos, encoders with and without recurrence, actor-critics, Q networks, critics."""
