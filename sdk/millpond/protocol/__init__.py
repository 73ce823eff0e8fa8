"""What every party must compute alike: ids, wire models, units, EIP-712 types, receipts, vouchers, values. No I/O."""
