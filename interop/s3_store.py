"""Serves the files of a folder as the bucket `models` of an S3 server of this machine (moto), prints its URL, and runs until its input ends."""
import os
import sys

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f'http://{host}:{port}'
client = boto3.client('s3', endpoint_url=endpoint, aws_access_key_id='id', aws_secret_access_key='secret', region_name='us-east-1')
client.create_bucket(Bucket='models')
root = sys.argv[1]
for folder, _, names in os.walk(root):
    for name in names:
        path = os.path.join(folder, name)
        client.upload_file(path, 'models', os.path.relpath(path, root).replace(os.sep, '/'))
print(endpoint, flush=True)
sys.stdin.read()
server.stop()
