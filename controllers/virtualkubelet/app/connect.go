// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/pods"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/server"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned"
)

// clients are the clients of the local cluster and of the provider, which is remote.
type clients struct {
	core       kubernetes.Interface
	federation versioned.Interface
	dynamic    dynamic.Interface
	remote     remotens.Clients
	provider   *server.Provider
	// identity is the identity at the provider, as read from Options.IdentityDir by connect.
	identity *remote.Identity
	// tenantNamespace is the consumer's tenant namespace on the provider.
	tenantNamespace string
	// audience is the audience to request for a token volume that specifies none. Empty means the API server's default.
	audience string
}

// local returns the configuration of clients of the local cluster. It fails if the kubeconfig file, or without one the
// ServiceAccount of the pod, cannot be read.
func local(options *Options) (*rest.Config, error) {
	return remote.Local(options.Kubeconfig, "federation-virtual-kubelet")
}

func connect(options *Options) (*clients, error) {
	localConfig, err := local(options)
	if err != nil {
		return nil, err
	}
	c := &clients{audience: pods.DefaultAudience(localConfig)}
	localConfig = tuned(localConfig, options)
	// remote.Config selects the encoding for the provider.
	localConfig.ContentType = runtime.ContentTypeProtobuf
	localConfig.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.core, err = kubernetes.NewForConfig(localConfig); err != nil {
		return nil, fmt.Errorf("creating clients of this cluster: %w", err)
	}
	if c.federation, err = versioned.NewForConfig(localConfig); err != nil {
		return nil, fmt.Errorf("creating clients of this cluster: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(localConfig); err != nil {
		return nil, fmt.Errorf("creating clients of this cluster: %w", err)
	}

	identity, err := remote.FromDirectory(options.IdentityDir)
	if err != nil {
		return nil, err
	}
	remoteConfig, err := configOf(identity, options)
	if err != nil {
		return nil, err
	}
	c.identity = identity
	c.tenantNamespace = identity.Namespace

	all, err := remote.NewClients(tuned(remoteConfig, options))
	if err != nil {
		return nil, err
	}
	c.remote = remotens.Clients{
		Core:       all.Kube,
		Federation: all.Federation,
		Dynamic:    all.Dynamic,
		Metadata:   all.Metadata,
		Metrics:    all.Metrics,
	}
	if c.provider, err = server.NewProvider(remoteConfig); err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", remoteConfig.Host, err)
	}
	return c, nil
}

// configOf returns the configuration of clients of the provider. The clients read renewed credentials from the files in
// Options.IdentityDir without a restart. It fails if the identity is invalid.
func configOf(identity *remote.Identity, options *Options) (*rest.Config, error) {
	config, err := remote.Config(identity, remote.Options{Limits: remote.OwnLimits, Dial: options.Dial})
	if err != nil {
		return nil, err
	}
	if identity.Token != "" {
		config.BearerToken, config.BearerTokenFile = "", filepath.Join(options.IdentityDir, remote.KeyToken)
	} else {
		config.CertData, config.KeyData = nil, nil
		config.CertFile = filepath.Join(options.IdentityDir, remote.KeyCertificate)
		config.KeyFile = filepath.Join(options.IdentityDir, remote.KeyPrivateKey)
	}
	return config, nil
}

// errMoved is returned when the clients of the provider must be created again, because the address, the CAs, the proxy,
// the tenant namespace or the kind of credentials in the identity changed.
var errMoved = errors.New("the connection settings of the provider changed")

// watchIdentity reads the files of the identity in dir at intervals of identityCheck. It returns errMoved when one of
// the settings changed for which the clients must be created again, and nil when the context ends. Clients read renewed
// credentials themselves.
func watchIdentity(ctx context.Context, identity *remote.Identity, dir string, clock clock.WithTicker) error {
	ticker := clock.NewTicker(identityCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		now, err := remote.FromDirectory(dir)
		if err != nil {
			// The kubelet of this pod may be replacing the mounted files. If the identity was deleted, clients.check fails.
			continue
		}
		if now.Server != identity.Server || now.ProxyURL != identity.ProxyURL || now.Namespace != identity.Namespace ||
			now.Account != identity.Account || !bytes.Equal(now.CA, identity.CA) ||
			now.Control != identity.Control || !bytes.Equal(now.ProxyCA, identity.ProxyCA) {
			return errMoved
		}
	}
}

// identityCheck is the time between two reads of the identity's files.
const identityCheck = 10 * time.Second

// tuned returns a copy of a configuration without client-side rate limits, since API servers limit requests by priority
// and fairness.
func tuned(config *rest.Config, options *Options) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	config.UserAgent = "virtual-kubelet/" + options.NodeName
	return config
}

// check returns the version of the provider's API server. It also reads the ResourceOffer that the VirtualNode names,
// if any, so that it fails if the federation API is unavailable or the consumer may not read the offer.
func (c *clients) check(ctx context.Context, vn *v1alpha1.VirtualNode) (string, error) {
	version, err := c.remote.Core.Discovery().ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	if vn != nil && vn.Spec.OfferName != "" {
		if _, err := c.remote.Federation.FederationV1alpha1().
			ResourceOffers(c.tenantNamespace).
			Get(ctx, vn.Spec.OfferName, metav1.GetOptions{}); err != nil {
			return "", err
		}
	}
	return translate.Version(version.GitVersion), nil
}
