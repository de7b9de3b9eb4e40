package daemon

import (
	"net"
	"net/url"

	"github.com/rs/zerolog"

	"cutie/publisher"
	"cutie/publisher/options"
	"cutie/queuefs"
)

// announce logs that the published history is about to begin anew, with another base
// URI or version. Without a word of the operator that is only done for a base URI on
// loopback: mirrors on other machines cannot follow one, and a free port is another
// one each time.
func (o *Options) announce(svc *queuefs.Service, source *publisher.Options) {
	c, changed := options.Changed(svc.Dir(), *source)
	if !changed {
		return
	}
	level := zerolog.WarnLevel
	if c.FromVersion == c.ToVersion && onLoopback(c.FromBase) {
		level, source.Anew = zerolog.InfoLevel, true
	}
	if source.Anew {
		o.Log.WithLevel(level).Str("base", c.ToBase).Stringer("version", c.ToVersion).Str("formerBase", c.FromBase).Stringer("formerVersion", c.FromVersion).
			Msg("published history begins anew, so does every mirror")
	}
}

// onLoopback reports whether a base URI leads to this machine alone.
func onLoopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback() || u.Hostname() == "localhost"
}
