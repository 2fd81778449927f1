"""Why a request is not believed to be from whom it says; the audit log and the metrics tell by reason.

| reason | what was wrong |
|---|---|
| credential, credential_form | none was given; Authorization holds what no source takes |
| twice, hop_by_hop | a header that tells the caller says two things, or is named in Connection |
| api_key, header, peer | no such key; a name that is none; a name from a peer that is not listed |
| token_size, token_form, token_type, token_algorithm | not a token of the form that is served |
| token_key, token_signature | signed by no key of the provider's, or not by the one it names |
| token_issuer, token_audience | not from that provider, or not for this server |
| token_expired, token_early | its time is over, or has not come |
| token_claims | it lacks what names the caller |
| token_inactive | the provider says that it does not count |

No reason and no message holds anything of the credential.
"""


class Refused(Exception):
    """The request's credential does not count: a 401, whatever else the request carries (OWN-ID)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    @property
    def of_token(self) -> bool:
        """True where a bearer token was given and does not count."""
        return self.reason.startswith("token_")


class Undecided(Exception):
    """The provider that could tell does not answer now: a 503, never another caller."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
