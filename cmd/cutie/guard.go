package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/daemon"
)

// A guard is what the options of the daemon say about who may do what, before
// there is a home.
type guard struct {
	access.Options
	implied bool // nothing was said: everybody on this machine, and nobody else
	proxies access.Proxies
	cert    *daemon.Certificate
}

// guard checks the options, so that nothing is made before they are clear.
func (o *serveOptions) guard(log zerolog.Logger) (*guard, error) {
	g := &guard{implied: o.users == "" && o.anonymous == ""}
	g.Users = o.users
	g.Report = func(users int, wide bool) {
		log.Info().Str("file", o.users).Int("users", users).Msg("users read")
		if wide {
			log.Warn().Str("file", o.users).Msg("others can read or write the users file, chmod 600 takes that away")
		}
	}
	var err error
	switch {
	case o.anonymous != "":
		if g.Anonymous, err = access.ParseRights(o.anonymous); err != nil {
			return nil, usagef("--anonymous: %v", err)
		}
	case g.implied:
		g.Anonymous = access.Everything
	}
	for _, text := range o.proxies {
		p, err := access.ParseProxy(text)
		if err != nil {
			return nil, usagef("--trusted-proxy: %v", err)
		}
		g.proxies = append(g.proxies, p)
	}
	switch {
	case o.maxConns < 1 || o.maxWaits < 1 || o.maxBody < 1:
		return nil, usagef("--max-body, --max-conns and --max-waits are 1 or more")
	case o.logKeep < 0 || o.logKeep > 1000:
		return nil, usagef("--log-keep is 0 to 1000")
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return nil, usagef("--tls-cert and --tls-key belong together")
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		if most := daemon.Connections(o.maxConns, files.Cur); most < o.maxConns {
			log.Warn().Int("asked", o.maxConns).Int("connections", most).Msg("fewer connections, for this process may open few files (ulimit -n)")
			o.maxConns = most
		}
	}
	if o.tlsCert != "" {
		if g.cert, err = daemon.LoadCertificate(o.tlsCert, o.tlsKey); err != nil {
			return nil, err
		}
	}
	if o.users != "" {
		if _, _, err := access.Load(o.users); err != nil {
			err = fmt.Errorf("users: %w", err)
			if errors.Is(err, fs.ErrNotExist) {
				err = withHint(err, "cutie user add NAME --users "+o.users+" makes it")
			}
			return nil, err
		}
	}
	return g, nil
}
