package fetch

// Trust gives a Client the answers after which its pipelines are at their longest.
func (c *Client) Trust() { c.route.served.Store(MaxAhead * c.route.share) }

// Trusts reports whether the Client still pipelines.
func (c *Client) Trusts() bool { return c.route.trusted() }
