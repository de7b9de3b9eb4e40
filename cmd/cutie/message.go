package main

import "strings"

// asMessage tells whether -t asks for a job as it comes over the network: the
// message with all its parts (Cutie 0.3, 5.6). There is no other form of one.
func (c *call) asMessage(p places) (bool, error) {
	switch {
	case c.form == "":
		return false, nil
	case !strings.EqualFold(c.form, "multipart") && !strings.EqualFold(c.form, "multipart/form-data"):
		return false, withHint(usagef("response form %.40q is none of a job", c.form), "-t multipart, or without -t the payload alone; getJobState shows states")
	case p.sidecar != "":
		return false, usagef("--sidecar-out is for the payload alone, a message has the sidecar in it")
	}
	return true, nil
}
