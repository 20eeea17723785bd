// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"liqo.io/federation/test/certificates"
)

// Etcd is an etcd cluster that requires client certificates. Each member is a process of its own.
type Etcd struct {
	environment *Environment
	dir         string
	members     []*member
}

type member struct {
	name, client, peer string
	process            *process
}

// StartEtcd starts an etcd cluster with this number of members, and waits until all of them serve.
// It is stopped when the test ends.
func (e *Environment) StartEtcd(t testing.TB, members int) *Etcd {
	t.Helper()
	etcd := &Etcd{environment: e, dir: e.MakeDataDir(t)}
	ca, err := certificates.NewAuthority("etcd")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(etcd.path("ca.crt"), ca.Bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ca.Write(etcd.dir, "member", pkix.Name{CommonName: "etcd"}, []string{"localhost"},
		[]net.IP{loopback}); err != nil {
		t.Fatal(err)
	}
	if err := ca.Write(etcd.dir, "client", pkix.Name{CommonName: "federation-apiserver"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for i := range members {
		var urls [2]string
		for j := range urls {
			port, err := freePort()
			if err != nil {
				t.Fatal(err)
			}
			urls[j] = fmt.Sprintf("https://%s:%d", loopback, port)
		}
		etcd.members = append(etcd.members, &member{name: fmt.Sprintf("etcd-%d", i), client: urls[0], peer: urls[1]})
	}
	for i := range etcd.members {
		etcd.launch(t, i)
	}
	etcd.await(t)
	return etcd
}

// ServerArgs returns the arguments with which a federation API server uses this etcd.
func (c *Etcd) ServerArgs() []string {
	var urls []string
	for _, m := range c.members {
		urls = append(urls, m.client)
	}
	return []string{
		"--etcd-servers=" + strings.Join(urls, ","),
		"--etcd-cafile=" + c.path("ca.crt"), "--etcd-certfile=" + c.path("client.crt"), "--etcd-keyfile=" +
			c.path("client.key"),
	}
}

// Kill kills the member with this index.
func (c *Etcd) Kill(t testing.TB, i int) {
	t.Helper()
	if err := c.members[i].process.stop(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// Start starts a member that was killed, and waits until it serves.
func (c *Etcd) Start(t testing.TB, i int) {
	t.Helper()
	c.launch(t, i)
	c.await(t)
}

func (c *Etcd) launch(t testing.TB, i int) {
	t.Helper()
	m := c.members[i]
	var cluster []string
	for _, m := range c.members {
		cluster = append(cluster, m.name+"="+m.peer)
	}
	var err error
	m.process, err = c.environment.processes.start(c.path(m.name+".log"), filepath.Join(c.environment.bin, "etcd"), nil,
		"--name="+m.name, "--data-dir="+c.path(m.name), "--log-level=warn",
		"--listen-client-urls="+m.client, "--advertise-client-urls="+m.client,
		"--listen-peer-urls="+m.peer, "--initial-advertise-peer-urls="+m.peer,
		"--initial-cluster="+strings.Join(cluster, ","),
		"--cert-file="+c.path("member.crt"), "--key-file="+c.path("member.key"), "--trusted-ca-file="+c.path("ca.crt"),
		"--client-cert-auth",
		"--peer-cert-file="+c.path("member.crt"), "--peer-key-file="+c.path("member.key"),
		"--peer-trusted-ca-file="+c.path("ca.crt"), "--peer-client-cert-auth",
	)
	if err != nil {
		t.Fatal(err)
	}
	process := m.process
	t.Cleanup(func() {
		if err := process.stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
}

// await waits until every member answers reads.
func (c *Etcd) await(t testing.TB) {
	t.Helper()
	tls, err := transport.TLSInfo{TrustedCAFile: c.path("ca.crt"), CertFile: c.path("client.crt"),
		KeyFile: c.path("client.key")}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for _, m := range c.members {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.client}, TLS: tls, DialTimeout: 5 * time.Second,
			Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		err = m.process.until(ctx, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			_, err := client.Get(ctx, "health")
			return err
		})
		client.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (c *Etcd) path(name string) string { return filepath.Join(c.dir, name) }
