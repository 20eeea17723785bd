// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/cert"
	logsapi "k8s.io/component-base/logs/api/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
)

// maxClusterName is the maximum length of --cluster-name, which becomes part of names of namespaces and
// nodes.
const maxClusterName = 40

// minSnapshotInterval is the minimum of --snapshots-interval other than 0.
const minSnapshotInterval = time.Second

// Validate returns all errors of the options. It reads the files that the options name, and sends no
// requests.
func (o *Options) Validate() []error {
	var errs []error
	errs = append(errs, o.validateCluster()...)
	errs = append(errs, o.validateServing()...)
	errs = append(errs, o.validateStorage()...)
	errs = append(errs, o.Authorization.validate()...)
	errs = append(errs, o.Admission.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, o.Tracing.Validate()...)
	if o.MaxRequests < 1 || o.MaxMutatingRequests < 1 {
		errs = append(errs, errors.New("--max-requests-inflight and --max-mutating-requests-inflight: must be at least 1"))
	}
	if o.MaxPeerWatches < 1 {
		errs = append(errs, errors.New("--max-peer-watches: must be at least 1"))
	}
	for _, err := range logsapi.Validate(o.Logging, nil, nil) {
		errs = append(errs, err)
	}
	return errs
}

func (o *Options) validateCluster() []error {
	var errs []error
	if o.ClusterName == "" {
		errs = append(errs, errors.New("--cluster-name is required: it is the name of this cluster among its peers"))
	} else {
		errs = append(errs, label("--cluster-name", o.ClusterName)...)
		if len(o.ClusterName) > maxClusterName {
			errs = append(errs, fmt.Errorf("--cluster-name %q: must be at most %d characters", o.ClusterName,
				maxClusterName))
		}
	}
	errs = append(errs, label("--namespace", o.Namespace)...)
	errs = append(errs, label("--invitation-namespace", o.InvitationNamespace)...)
	if o.Namespace == o.InvitationNamespace {
		errs = append(errs, fmt.Errorf("--invitation-namespace %q: must not be --namespace: every service account in the "+
			"invitation namespace may request an identity", o.InvitationNamespace))
	}
	trusts := []string{string(v1alpha1.TrustTenant), string(v1alpha1.TrustSameOwner)}
	if !slices.Contains(trusts, o.Trust) {
		errs = append(errs, fmt.Errorf("--policy-trust %q: must be one of %v", o.Trust, trusts))
	}
	errs = append(errs, o.Pods.Validate()...)
	errs = append(errs, trust.ValidateAPIAccess(o.APIAccess)...)
	if o.Server != "" {
		if err := serverURL(o.Server); err != nil {
			errs = append(errs, fmt.Errorf("--server %q: %w", o.Server, err))
		}
	}
	if o.ServerCAFile != "" {
		if o.Server == "" {
			errs = append(errs, errors.New("--server-ca-file: requires --server"))
		}
		if _, err := cert.NewPool(o.ServerCAFile); err != nil {
			errs = append(errs, fmt.Errorf("--server-ca-file: %w", err))
		}
	}
	return errs
}

func (o *Options) validateServing() []error {
	var errs []error
	errs = append(errs, o.Serving.Validate()...)
	if err := servingPair(o.Serving.ServerCert.CertKey.CertFile, o.Serving.ServerCert.CertKey.KeyFile); err != nil {
		errs = append(errs, err)
	}
	switch o.Serving.MinTLSVersion {
	case "", "VersionTLS12", "VersionTLS13":
	default:
		errs = append(errs, fmt.Errorf("--tls-min-version %q: must be VersionTLS12 or VersionTLS13", o.Serving.MinTLSVersion))
	}
	return errs
}

func (o *Options) validateStorage() []error {
	var errs []error
	if file := o.Etcd.EncryptionProviderConfigFilepath; file != "" {
		if _, err := os.Stat(file); err != nil {
			errs = append(errs, fmt.Errorf("--encryption-provider-config: %w", err))
		}
	} else if o.Etcd.EncryptionProviderConfigAutomaticReload {
		errs = append(errs, errors.New("--encryption-provider-config-automatic-reload: requires "+
			"--encryption-provider-config"))
	}
	transport := o.Etcd.StorageConfig.Transport
	if o.embedsEtcd() {
		if o.DataDir == "" {
			errs = append(errs, errors.New("--data-dir: set a directory for the embedded etcd, or set --etcd-servers"))
		}
		if interval := o.Snapshots.Interval; interval != 0 && interval < minSnapshotInterval {
			errs = append(errs, fmt.Errorf("--snapshots-interval %s: must be 0 or at least %s", interval,
				minSnapshotInterval))
		}
		if o.Snapshots.Retain < 1 {
			errs = append(errs, fmt.Errorf("--snapshots-retain %d: must be at least 1", o.Snapshots.Retain))
		}
		if transport.TrustedCAFile != "" || transport.CertFile != "" || transport.KeyFile != "" {
			errs = append(errs, errors.New("--etcd-cafile, --etcd-certfile and --etcd-keyfile: require --etcd-servers"))
		}
		return errs
	}
	for _, server := range transport.ServerList {
		if u, err := url.Parse(server); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
			errs = append(errs, fmt.Errorf("--etcd-servers %q: must be URLs, for example https://etcd:2379", server))
		}
	}
	if (transport.CertFile == "") != (transport.KeyFile == "") {
		errs = append(errs, errors.New("--etcd-certfile and --etcd-keyfile: must be set together"))
	} else if transport.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(transport.CertFile, transport.KeyFile); err != nil {
			errs = append(errs, fmt.Errorf("--etcd-certfile %s with --etcd-keyfile %s: %w",
				transport.CertFile, transport.KeyFile, err))
		}
	}
	if transport.TrustedCAFile != "" {
		if _, err := cert.NewPool(transport.TrustedCAFile); err != nil {
			errs = append(errs, fmt.Errorf("--etcd-cafile: %w", err))
		}
	}
	return errs
}

func label(flag, value string) []error {
	var errs []error
	for _, message := range validation.IsDNS1123Label(value) {
		errs = append(errs, fmt.Errorf("%s %q: %s", flag, value, message))
	}
	return errs
}

func serverURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("must be a URL: %w", err)
	}
	if u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be an https URL without user, query and fragment, for example https://api.example.com:6443")
	}
	return nil
}
