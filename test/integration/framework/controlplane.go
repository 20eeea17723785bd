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

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"liqo.io/federation/test/certificates"
)

var loopback = net.IPv4(127, 0, 0, 1)

// startControlPlane starts etcd and kube-apiserver, and waits until they are ready.
func (e *Environment) startControlPlane(ctx context.Context) error {
	if err := e.writeCertificates(); err != nil {
		return fmt.Errorf("creating certificates: %w", err)
	}
	if err := e.startEtcd(); err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	e.apiserver = fmt.Sprintf("https://%s:%d", loopback, port)
	apiserver, err := e.processes.start(e.path("kube-apiserver.log"), filepath.Join(e.bin, "kube-apiserver"), nil,
		"--etcd-servers="+e.etcd,
		"--bind-address="+loopback.String(), "--advertise-address="+loopback.String(), fmt.Sprintf("--secure-port=%d", port),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file="+e.path("kube-apiserver.crt"), "--tls-private-key-file="+e.path("kube-apiserver.key"),
		"--tls-sni-cert-key="+e.path("advertised.crt")+","+e.path("advertised.key")+":"+advertisedHost,
		"--client-ca-file="+e.path("ca.crt"),
		"--audit-policy-file="+e.path("audit-policy.yaml"), "--audit-log-path="+e.path("audit.log"),
		"--authorization-mode=RBAC", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+e.path("accounts.key"), "--service-account-signing-key-file="+e.path("accounts.key"),
		"--requestheader-client-ca-file="+e.path("proxy-ca.crt"), "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+e.path("front-proxy.crt"), "--proxy-client-key-file="+e.path("front-proxy.key"),
	)
	if err != nil {
		return fmt.Errorf("starting kube-apiserver: %w", err)
	}
	if e.Admin, err = e.client("admin", user.SystemPrivilegedGroup); err != nil {
		return err
	}
	if e.Kube, err = kubernetes.NewForConfig(e.Admin); err != nil {
		return err
	}
	return apiserver.until(ctx, func(ctx context.Context) error {
		return e.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (e *Environment) startEtcd() error {
	socket := func(name string) string { return "unix://" + e.path(name) }
	e.etcd = socket("etcd.sock")
	port, err := freePort()
	if err != nil {
		return err
	}
	e.EtcdURL = fmt.Sprintf("http://%s:%d", loopback, port)
	_, err = e.processes.start(e.path("etcd.log"), filepath.Join(e.bin, "etcd"), nil,
		"--data-dir="+e.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+e.etcd+","+e.EtcdURL, "--advertise-client-urls="+e.etcd,
		"--listen-peer-urls="+socket("peer.sock"),
	)
	return err
}

func (e *Environment) writeCertificates() (err error) {
	if e.authority, err = certificates.NewAuthority("federation-test"); err != nil {
		return err
	}
	if e.proxy, err = certificates.NewAuthority("federation-test-proxy"); err != nil {
		return err
	}
	if err := e.writeAdvertised(e.authority); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"ca.crt": e.authority.Bundle, "proxy-ca.crt": e.proxy.Bundle,
		"audit-policy.yaml": []byte(auditPolicy)} {
		if err := os.WriteFile(e.path(name), content, 0o600); err != nil {
			return err
		}
	}
	addresses := []net.IP{loopback}
	if err := e.authority.Write(e.dir, "kube-apiserver", pkix.Name{CommonName: "kube-apiserver"}, nil,
		addresses); err != nil {
		return err
	}
	if err := e.authority.Write(e.dir, "server", pkix.Name{CommonName: serviceName},
		[]string{serviceName + "." + Namespace + ".svc"}, addresses); err != nil {
		return err
	}
	if err := e.authority.Write(e.dir, "accounts", pkix.Name{CommonName: "service-accounts"}, nil, nil); err != nil {
		return err
	}
	return e.proxy.Write(e.dir, "front-proxy", pkix.Name{CommonName: "front-proxy"}, nil, nil)
}

// path returns the path of a file in the directory of the environment.
func (e *Environment) path(name string) string { return filepath.Join(e.dir, name) }

// client returns the configuration of a client with a certificate for this user and these groups.
func (e *Environment) client(name string, groups ...string) (*rest.Config, error) {
	certificate, key, err := e.authority.Issue(pkix.Name{CommonName: name, Organization: groups}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate for %s: %w", name, err)
	}
	return &rest.Config{
		Host:            e.apiserver,
		TLSClientConfig: rest.TLSClientConfig{CAData: e.authority.Bundle, CertData: certificate, KeyData: key},
		QPS:             -1,
	}, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback.String(), "0"))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
