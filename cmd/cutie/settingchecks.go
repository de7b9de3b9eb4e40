package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/s3"
	"cutie/queuefs/stored"
)

// checkListen resolves the address. Beyond loopback the operator must have given rights.
// The daemon later binds this address, even if the name resolves to another by then.
func (s *settings) checkListen() error {
	addr, err := net.ResolveTCPAddr("tcp", s.listen)
	if err == nil && s.listen == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fault.Hint(fault.Usagef("listen address %.60q: %v", s.listen, err), "it is a host and a port, such as 127.0.0.1:8080, or :8080 for all addresses of the machine")
	}
	s.Listen.Addr = addr
	beyond := !addr.IP.IsLoopback()
	switch noRights := s.Access.Users == "" && s.Access.Anonymous == nil; {
	case beyond && noRights:
		return fault.Hint(fmt.Errorf("%w: %s can be reached from other machines", fault.ErrRefused, s.listen),
			"listen on 127.0.0.1, or give rights: --users FILE, or --anonymous read, submit or all")
	case noRights: // everybody on this machine may do all
		s.Access.Anonymous = access.Everything
	case beyond && s.Access.Users != "" && s.tlsCert == "" && s.Listen.Proxies == nil:
		s.Log.Warn().Msg("passwords and tokens are not safe on the way: use --tls-cert and --tls-key, or a proxy that has TLS")
	}
	return nil
}

func (s *settings) checkBaseURI() (err error) {
	if s.Listen.BaseURI != "" {
		s.Listen.BaseURI, err = reach.CleanBase(s.Listen.BaseURI)
	}
	return err
}

func (s *settings) checkCertificate() (err error) {
	if (s.tlsCert == "") != (s.tlsKey == "") {
		return fault.Usagef("--tls-cert and --tls-key belong together")
	}
	if s.tlsCert != "" {
		s.Listen.Certificate, err = listen.LoadCertificate(s.tlsCert, s.tlsKey)
	}
	return err
}

func (s *settings) checkUsers() error {
	file := s.Access.Users
	if file == "" {
		return nil
	}
	s.Access.Report = func(users int, wide bool) {
		s.Log.Info().Str("file", file).Int("users", users).Msg("users read")
		if wide {
			s.Log.Warn().Str("file", file).Msg("others can read or write the users file, chmod 600 takes that away")
		}
	}
	_, _, err := access.Load(file)
	if err == nil {
		return nil
	}
	hint := "mend the line, or bring the file back from a copy: cutie help access"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "cutie user add NAME --users " + file + " makes it"
	case errors.Is(err, fs.ErrPermission):
		hint = "chown " + file + " to the user of the daemon"
	case errors.Is(err, access.ErrNoFile):
		hint = "name the file itself: cutie user add NAME --users FILE makes one"
	case errors.Is(err, access.ErrEmpty):
		hint = "bring the file back from a copy; or begin anew: echo '# no users' > " + file + ", and cutie user add NAME --users " + file
	}
	return fault.Hint(fmt.Errorf("users: %w", err), hint)
}

// checkConnections lowers the number of connections to the files of this process.
func (s *settings) checkConnections() error {
	asked := s.Limits.Conns
	if asked < 1 {
		return mustBe("1 or more")
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return nil
	}
	if most := listen.Connections(asked, files.Cur); most < asked {
		s.Log.Warn().Int("asked", asked).Int("connections", most).Msg("fewer connections, for this process may open few files (ulimit -n)")
		s.Limits.Conns = most
	}
	return nil
}

func (s *settings) checkPayload() error {
	if s.Push.Payload && len(s.Push.Hubs) == 0 {
		return fault.Usagef("--hub-payload says how to tell the hubs of --hub, and there is none")
	}
	return nil
}

// checkStore opens the store. Nothing is sent to it yet.
func (s *settings) checkStore() error {
	switch {
	case s.storeURL == "" && (s.storeEndpoint != "" || s.takeOver || s.storeImage != 0 || s.Node.URL != ""):
		return fault.Usagef("--store-endpoint, --store-image, --node-url and --takeover belong to --store")
	case s.storeURL == "":
		return nil
	case len(s.Mirror.Sources) > 0:
		return fault.Usagef("--mirror and --store do not go together: the first copy of a mirror is in no journal")
	}
	bucket, err := s3.Open(s.storeURL, s.storeEndpoint)
	if err != nil {
		return fault.Usagef("--store: %v", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed machine"
	}
	if s.Node.URL != "" {
		if s.Node.URL, err = reach.CleanBase(s.Node.URL); err != nil {
			return fault.Usagef("--node-url: %v", err)
		}
	}
	s.Node.Store = objects.Count(bucket)
	s.store = &stored.Options{Objects: s.Node.Store, Name: fmt.Sprintf("process %d on %s", os.Getpid(), host), TakeOver: s.takeOver, Standby: true, Early: true, Every: int64(s.storeImage)}
	return nil
}
