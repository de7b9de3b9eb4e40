package field

// Headers of a job handed out with a lease.
const (
	Lease        = "Cutie-Lease"         // token; also in the requests of its holder
	LeaseExpires = "Cutie-Lease-Expires" // W3CDTF
	Attempt      = "Cutie-Attempt"       // how often the job was handed out, this time included
)
