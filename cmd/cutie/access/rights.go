package access

import (
	"fmt"
	"slices"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// A Grant is a right for a queue, by its cleaned identifier, or for all queues if
// that is "".
type Grant struct {
	Right web.Right
	Queue string
}

// Rights are a list of grants. As text they look like
//
//	read,submit:ingest,consume:ingest
//
// with read, submit, consume, delete and admin, each for the queue after a colon, or
// for all queues. A comma in a cleaned identifier is written as %2C. none is the
// empty list, and all means admin.
type Rights []Grant

// Everything is the right to do everything.
var Everything = Rights{{Right: web.Admin}}

const maxGrants = 1000

// ParseRights reads the text of [Rights.String], in any order. Identifiers may also
// be uncleaned.
func ParseRights(text string) (Rights, error) {
	if text == "none" {
		return Rights{}, nil
	}
	var list Rights
	for part := range strings.SplitSeq(text, ",") {
		name, queue, one := strings.Cut(part, ":")
		g := Grant{Right: web.Right(max(0, slices.Index(web.RightNames[:], name)))}
		if name == "all" {
			g.Right = web.Admin
		}
		if g.Right == 0 {
			return nil, fmt.Errorf("right %.40q is none of read, submit, consume, delete, admin", part)
		}
		if one {
			var err error
			if g.Queue, err = queuefs.CleanQueueID(strings.ReplaceAll(queue, "%2C", ",")); err != nil {
				return nil, fmt.Errorf("right %.40q: %w", part, err)
			}
		}
		if len(list) == maxGrants {
			return nil, fmt.Errorf("more than %d rights", maxGrants)
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b Grant) int {
		if a.Queue != b.Queue {
			return strings.Compare(a.Queue, b.Queue)
		}
		return int(a.Right) - int(b.Right)
	})
	return slices.Compact(list), nil
}

func (r Rights) String() string {
	if len(r) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, g := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(g.Right.String())
		if g.Queue != "" {
			b.WriteString(":" + strings.ReplaceAll(g.Queue, ",", "%2C"))
		}
	}
	return b.String()
}

// Allow reports whether a right for a queue is among r; "" is all queues.
func (r Rights) Allow(right web.Right, queue string) bool {
	for _, g := range r {
		if (g.Right == right || g.Right == web.Admin) && (g.Queue == "" || g.Queue == queue) {
			return true
		}
	}
	return false
}
