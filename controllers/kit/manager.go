// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// protobufThenJSON prefers protobuf to JSON in responses. Custom resources have no protobuf form.
const protobufThenJSON = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

// off is the bind address with which controller-runtime opens no listener.
const off = "0"

// NewScheme returns a scheme with the kinds of Kubernetes, of the federation API and of the Multi-Cluster Services API.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(mcsv1alpha1.Install(scheme))
	return scheme
}

// useProtobuf makes all clients of controller-runtime use protobuf for the kinds of the federation API. By default they
// do so only for kinds of Kubernetes. The setting is global in controller-runtime.
var useProtobuf = sync.OnceFunc(func() { utilruntime.Must(apiutil.AddToProtobufScheme(v1alpha1.AddToScheme)) })

var loggerIsSet sync.Once

// setLogger sets the global logger of controller-runtime, which warns if there is none. Only the first call has an
// effect, because ctrl.SetLogger is not safe for concurrent use.
func setLogger(logger logr.Logger) {
	loggerIsSet.Do(func() { ctrl.SetLogger(logger) })
}

// NewManager returns the controller-runtime manager of all controllers. It opens no port and elects no leader: the
// process serves health and metrics, and starts the manager once it leads.
//
// The manager caches the kinds that its controllers watch, without managed fields. TrimPod reduces cached pods, and
// only RoleBindings with the label v1alpha1.LabelManagedBy are cached. The manager's client reads Secrets, ConfigMaps
// and Events from the API server; reading any other kind that is not cached is an error.
func NewManager(connection *rest.Config, logger logr.Logger) (ctrl.Manager, error) {
	connection = rest.CopyConfig(connection)
	// With an empty ContentType, clients send protobuf for the kinds that have a protobuf form.
	connection.ContentType = ""
	connection.AcceptContentTypes = protobufThenJSON
	useProtobuf()
	setLogger(logger)
	manager, err := ctrl.NewManager(connection, ctrl.Options{
		Scheme: NewScheme(),
		Logger: logger,
		Cache: cache.Options{
			DefaultTransform:            remote.Trim,
			ReaderFailOnMissingInformer: true,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}:         {Transform: TrimPod},
				&rbacv1.RoleBinding{}: {Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})},
			},
		},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Event{}},
		}},
		Metrics:                metricsserver.Options{BindAddress: off},
		HealthProbeBindAddress: off,
		PprofBindAddress:       off,
		LeaderElection:         false,
		Controller: config.Controller{
			// The names come from --controllers and are unique in a process. Only tests run several processes in one.
			SkipNameValidation: ptr.To(true),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager of controllers: %w", err)
	}
	return manager, nil
}
