package board

import (
	"net/http"
	"time"

	"cutie/cmd/cutie/dashboard"
)

// mirrors answers with the mirrors among the readable queues.
func (b *Board) mirrors(w http.ResponseWriter, r *http.Request) error {
	var all []dashboard.Mirror
	for _, q := range b.readable(r) {
		s := q.State()
		if !s.Mirror.Live() {
			continue
		}
		m := dashboard.Mirror{Queue: s.Info.ID, Facts: *s.Mirror, Progress: s.Progress, Seq: s.Seq}
		if b.Differences != nil {
			m.Differences = b.Differences(m.Queue)
		}
		all = append(all, m)
	}
	return answer(w, dashboard.Mirrors(b.site(r, ""), all, time.Now()))
}
