"""Rights: rules, requests for approval, secrets, tokens and the audit log."""
